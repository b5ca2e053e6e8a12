"""The agents' port in a process of its own, as the evaluator sees it.

Header lists, handshakes and messages of clients that are not authenticated yet are gRPC's work: they take the memory and the
time of that process. It is started anew when it ends, and when clients make it take more memory than its calls need.
"""

import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from evaluator.core.signals import AgentsPortRestarted, Publish, unheard
from evaluator.core.sources.agents.calls import (
    FIRST_WINDOW,
    WINDOW,
    CallEndedError,
    Caller,
    Code,
    Frame,
    FrameKind,
    FrameSocket,
    Pem,
    Serve,
    ServerOptions,
    size,
)
from plimsoll import logs
from plimsoll.backoff import Backoff
from plimsoll.logs.ratelimited import RateLimitedLogger
from plimsoll.text import one_line

log = logs.get(__name__)

_MODULE = "evaluator.core.sources.agents.port_child"
_BATCH = 16
"""Frames handled between two yields to the event loop."""
_LOOK = 0.5
"""Seconds between two looks at the certificate's files and the process's memory."""
_MOST_MEMORY, _MEMORY_PER_FILE = 256 << 20, 24 << 10
"""Bytes that the process may take, and more for each place in its table of files, of which a connection takes three: an agent
needs 70 KB. The table doubles when it is full.
"""
_ENDING = 5.0
"""Seconds for which the process may end calls."""
_LONGEST_REASON = 200


class RemoteCall:
    """A call in the port's process."""

    def __init__(self, number: int, caller: Caller, frames: FrameSocket) -> None:
        self.caller = caller
        self._number = number
        self._frames = frames
        self._loop = asyncio.get_running_loop()
        self._messages: list[bytes | None] = []
        self._room = FIRST_WINDOW
        self._arrived: asyncio.Future[None] | None = None
        self._written: asyncio.Future[bytes] | None = None
        self._open = True

    def handle_frame(self, kind: FrameKind, content: bytes) -> None:
        """Take a frame of the port."""
        if kind is FrameKind.WRITTEN:
            if self._written is not None and not self._written.done():
                self._written.set_result(content)
        else:
            self._arrive(None if kind is FrameKind.LAST else content)

    def _arrive(self, message: bytes | None) -> None:
        self._messages.append(message)
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    async def read(self) -> bytes | None:
        """Return the next message; None after the last one."""
        if self._room <= 0:
            self._frames.send(FrameKind.READ, self._number)
            self._room = WINDOW
        if not self._messages:
            self._arrived = self._loop.create_future()
            await self._arrived
        message = self._messages.pop(0)
        self._room -= size(message or b"")
        return message

    async def write(self, message: bytes) -> None:
        """Send a message. Raises CallEndedError."""
        if not self._open:
            raise CallEndedError("the call has ended")
        self._written = self._loop.create_future()
        self._frames.send(FrameKind.MESSAGE, self._number, message)
        try:
            await self._frames.drain()
        except ConnectionError as error:
            raise CallEndedError("the process of the agents' port has ended") from error
        if reason := await self._written:
            raise CallEndedError(reason.decode())

    async def abort(self, code: Code, sentence: str) -> NoReturn:
        """End the call with a status. Raises asyncio.CancelledError, always."""
        self.end([code, sentence])
        raise asyncio.CancelledError

    def ended(self) -> None:
        """Stop waiting for the port, for which the call is over."""
        self._open = False
        self._arrive(None)
        if self._written is not None and not self._written.done():
            self._written.set_result(b"the call has ended")

    def end(self, status: list[str]) -> None:
        """End the call, with a code and a sentence or as completed; only the first end counts."""
        if self._open:
            self._open = False
            self._frames.send(FrameKind.END, self._number, json.dumps(status).encode())


class PortRestarts:
    """Restarts of the port's process; `at` (seconds of the clock) and `reason` are of the last one."""

    def __init__(
        self,
        publish: Publish = unheard,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._publish = publish
        self._clock = clock
        self.count = 0
        self.at = 0.0
        self.reason = ""

    def note(self, reason: str) -> None:
        """Count a restart, and publish it."""
        self.count += 1
        self.at, self.reason = self._clock(), reason
        self._publish(AgentsPortRestarted(self.at))


class PortProcess:
    """A port whose gRPC server runs in another process."""

    def __init__(
        self,
        address: str,
        certificate: Callable[[], Pem] | None = None,
        *,
        restarts: PortRestarts | None = None,
        closed: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`certificate` returns the current one; None: plain text. `restarts` counts those of the process.

        `closed` is called with the number of connections that were closed because they sent too much.
        """
        self._address = address
        self._certificate = certificate
        self._restarts = restarts or PortRestarts()
        self._count_closed = closed
        self._log = RateLimitedLogger(log)
        self._serve: Serve
        self._options: ServerOptions
        self._sent: Pem | None = None
        self._listening: asyncio.Future[int]
        self._frames: FrameSocket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._killed_because = ""
        self._calls: dict[int, tuple[RemoteCall, asyncio.Task[None]]] = {}
        self._tasks: list[asyncio.Task[NoReturn]] = []
        self._backoff = Backoff(random.random, first=0.2, longest=10.0)

    @property
    def pid(self) -> int | None:
        """The process; None while there is none."""
        return self._process.pid if self._process else None

    async def open(self, serve: Serve, options: ServerOptions) -> int:
        """Start the process and return the port. Raises OSError if the address cannot be bound."""
        self._serve, self._options = serve, options
        self._listening = asyncio.get_running_loop().create_future()
        self._tasks = [
            asyncio.create_task(self._supervise()),
            asyncio.create_task(self._watch()),
        ]
        try:
            return await self._listening
        except OSError:
            await self.close()
            raise

    async def close(self) -> None:
        """End all calls and the process."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _supervise(self) -> NoReturn:
        """Run the process, and another one whenever it ends."""
        while True:
            try:
                status = await self._run()
                reason = self._killed_because or f"ended with status {status}"
            except OSError as error:  # too many processes or files
                reason = f"cannot be started: {error}"
            if not self._listening.done():
                self._listening.set_exception(OSError(f"the process of the agents' port {reason}"))
            self._killed_because = ""
            wait, reason = self._backoff.next(), one_line(reason, _LONGEST_REASON)
            log.warning("restarting the agents' port", reason=reason, after=wait)
            self._restarts.note(reason)
            await asyncio.sleep(wait)

    async def _run(self) -> int:
        """Serve the calls of one process until it ends; return its status."""
        frames, process = await self._start()
        try:
            handled = 0
            async for frame in frames.frames():
                self._take(frame, frames)
                handled += 1
                if handled % _BATCH == 0:
                    await asyncio.sleep(0)
        finally:
            self._frames = None
            frames.close()  # ends the process if it has not
            for number in tuple(self._calls):
                self._ended(number)
            status = await _wait(process)
            self._process = None
        return status

    async def _start(self) -> tuple[FrameSocket, "subprocess.Popen[bytes]"]:
        """Start the process and ask it to listen."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = self._process = _spawn(theirs)
            except OSError:
                ours.close()
                raise
        frames = self._frames = await FrameSocket.connected(ours)
        self._sent = None
        self._send_certificate()
        settings = self._address, self._certificate is not None, *self._options
        frames.send(FrameKind.OPEN, content=json.dumps(settings).encode())
        return frames, process

    def _take(self, frame: Frame, frames: FrameSocket) -> None:
        kind, number, content = frame
        if kind is FrameKind.LISTENING:
            self._listens(int(content))
        elif kind is FrameKind.FAILED:
            self._failed(content.decode())
        elif kind is FrameKind.CLOSED:
            self._closed(json.loads(content))
        elif kind is FrameKind.CALLED:
            peer, names, resumed, token = json.loads(content)
            call = RemoteCall(number, Caller(peer, tuple(names), resumed, token), frames)
            self._calls[number] = call, asyncio.create_task(self._serve_call(call))
        elif kind is FrameKind.ENDED:
            self._ended(number)
        elif (found := self._calls.get(number)) is not None:
            found[0].handle_frame(kind, content)

    def _listens(self, bound: int) -> None:
        self._backoff.reset()
        if not self._listening.done():
            host, _, _ = self._address.rpartition(":")
            self._address = f"{host}:{bound}"  # the same one when it is started anew
            self._listening.set_result(bound)

    def _closed(self, counts: Mapping[str, int]) -> None:
        """Count connections that the port closed, and name the address with most of them."""
        self._count_closed(sum(counts.values()))
        address = max(counts, key=counts.__getitem__)
        self._log.log(
            "closed connections that sent too much before an agent was admitted",
            address=address,
            connections=counts[address],
            other_addresses=len(counts) - 1,
        )

    def _failed(self, reason: str) -> None:
        if not self._listening.done():
            self._listening.set_exception(OSError(reason))
        elif self._process is not None:
            self._kill(self._process, f"cannot listen: {reason}")

    async def _serve_call(self, call: RemoteCall) -> None:
        try:
            await self._serve(call)
        finally:
            call.end([])

    def _ended(self, number: int) -> None:
        if (found := self._calls.pop(number, None)) is not None:
            call, serving = found
            call.ended()
            serving.cancel()

    async def _watch(self) -> NoReturn:
        """Pass changed certificates on, and end a process that takes too much memory."""
        while True:
            await asyncio.sleep(_LOOK)
            self._send_certificate()
            if (process := self._process) is not None:
                taken, places = _memory(process.pid)
                if taken > (bound := _MOST_MEMORY + _MEMORY_PER_FILE * places):
                    self._kill(process, f"took {taken >> 20} MiB of memory, at most {bound >> 20}")

    def _kill(self, process: "subprocess.Popen[bytes]", reason: str) -> None:
        """End the process; it is started again for this reason."""
        self._killed_because = reason
        process.kill()

    def _send_certificate(self) -> None:
        if self._certificate is None or self._frames is None:
            return
        if (newest := self._certificate()) != self._sent:
            self._sent = newest
            texts = [
                part.decode("latin-1") for part in newest
            ]  # comments in it may be of any encoding
            self._frames.send(FrameKind.CERTIFICATE, content=json.dumps(texts).encode())


def _spawn(end: socket.socket) -> "subprocess.Popen[bytes]":
    """Start the port's process at one end of the pair. It imports from where this process does."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(  # noqa: S603 (a module of ours)
        [sys.executable, "-P", "-m", _MODULE, str(end.fileno())],
        pass_fds=[end.fileno()],
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": path},
    )


def _memory(pid: int) -> tuple[int, int]:
    """Return the resident memory of a process in bytes, and the size of its table of files; 0 if the system does not tell.

    /proc/<pid>/status, proc_pid_status(5).
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        fields = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
        return int(fields["VmRSS"][0]) << 10, int(fields["FDSize"][0])
    except (OSError, KeyError):
        return 0, 0  # it has ended


async def _wait(process: "subprocess.Popen[bytes]") -> int:
    """Return the status of a process that is ending; kill it if that takes too long."""
    try:
        return await asyncio.to_thread(process.wait, _ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        return await asyncio.to_thread(process.wait)

"""The process of the agents' port: gRPC, whose calls the evaluator serves over a pair of Unix sockets.

What clients can make gRPC do before they are authenticated takes this process's memory and its interpreter's lock, not the
evaluator's. Started by `port_process`, with the number of the socket as argument. Ends with the evaluator, whatever ends it.
"""

import asyncio
import ctypes
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import NoReturn

from evaluator.core.sources.agents.calls import (
    FIRST_WINDOW,
    WINDOW,
    Call,
    CallEndedError,
    Code,
    FrameKind,
    FrameSocket,
    Pem,
    ServerOptions,
    size,
)
from evaluator.core.sources.agents.grpc_port import GrpcPort
from evaluator.core.sources.agents.relay import Relay
from evaluator.core.sources.agents.unadmitted import Bounds
from plimsoll.http.addresses import ListenError, parse
from plimsoll.process import memory

_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of sys/prctl.h
_LOOK = 0.5
"""Seconds between two looks at memory: a trim of the heap delays nothing but agents."""
_MOST_CALLS = 0xFFFF_FFFF


class RelayedCall:
    """A call that the evaluator serves. Must be created in gRPC's task of the call."""

    def __init__(
        self, number: int, call: Call, frames: FrameSocket, admit: Callable[[], None]
    ) -> None:
        """`admit` is called when the evaluator asks for more than the first message: it has admitted the client."""
        self._number = number
        self._call = call
        self._admit = admit
        self._frames = frames
        self._task = asyncio.current_task()
        self._room = FIRST_WINDOW
        self._asked: asyncio.Future[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._end: list[str] | None = None

    def handle_frame(self, kind: FrameKind, content: bytes) -> None:
        """Do what the evaluator asks for."""
        if kind is FrameKind.READ:
            self._room = WINDOW
            self._admit()
            if self._asked is not None and not self._asked.done():
                self._asked.set_result(None)
        elif kind is FrameKind.MESSAGE:
            self._writing = asyncio.create_task(self._write(content))
        elif kind is FrameKind.END and self._end is None and self._task is not None:
            self._end = json.loads(content)
            self._task.cancel()

    async def run(self) -> None:
        """Relay the client's messages until either side ends the call."""
        try:
            while True:
                if self._room <= 0:
                    self._asked = asyncio.get_running_loop().create_future()
                    await self._asked
                await self._frames.drain()
                if (message := await self._call.read()) is None:
                    break
                self._room -= size(message)
                self._frames.send(FrameKind.MESSAGE, self._number, message)
            self._frames.send(FrameKind.LAST, self._number)
            await asyncio.Event().wait()  # until the evaluator ends the call
        except asyncio.CancelledError:
            if self._end is None or self._task is None or self._task.uncancel() > 0:
                raise  # the client has gone
        except ConnectionError:
            return  # the evaluator has ended, and so does this process
        finally:
            self._task = None
        if self._writing is not None:
            await asyncio.wait([self._writing])  # a client would wait for what is not sent
        if self._end:
            code, sentence = self._end
            await self._call.abort(Code(code), sentence)

    async def _write(self, message: bytes) -> None:
        try:
            await self._call.write(message)
        except CallEndedError as error:
            self._frames.send(FrameKind.WRITTEN, self._number, str(error).encode() or b"ended")
        else:
            self._frames.send(FrameKind.WRITTEN, self._number)


class PortChild:
    """Serves the calls of a port by the evaluator at the other end of a socket."""

    def __init__(self, frames: FrameSocket) -> None:
        self._frames = frames
        self._calls: dict[int, RelayedCall] = {}
        self._last = 0
        self._pem = Pem(b"", b"")
        self._port: GrpcPort
        self._relay: Relay
        self._relaying: asyncio.Task[NoReturn] | None = None

    async def run(self) -> None:
        """Run until the evaluator closes its end."""
        async with asyncio.TaskGroup() as tasks:
            async for kind, number, content in self._frames.frames():
                if kind is FrameKind.OPEN:
                    await self._open(content, tasks)
                elif kind is FrameKind.CERTIFICATE:
                    self._pem = Pem(*(text.encode("latin-1") for text in json.loads(content)))
                elif (call := self._calls.get(number)) is not None:
                    call.handle_frame(kind, content)
            if self._relaying is not None:
                await self._port.close()
                self._relaying.cancel()
                await asyncio.wait([self._relaying])
                self._relay.close()

    async def _open(self, content: bytes, tasks: asyncio.TaskGroup) -> None:
        address, tls, channel, calls, bounds = json.loads(content)
        self._relay = Relay(Bounds(*bounds), self._closed)
        self._port = GrpcPort(self._relay.target, self._certificate if tls else None)
        options = ServerOptions(tuple((name, value) for name, value in channel), calls)
        try:
            await self._port.open(self._serve, options)
            bound = self._relay.listen(parse(address))
        except (OSError, ListenError) as error:
            self._frames.send(FrameKind.FAILED, 0, str(error).encode())
        else:
            self._relaying = tasks.create_task(self._relay.run())
            self._frames.send(FrameKind.LISTENING, 0, str(bound).encode())

    def _closed(self, counts: Mapping[str, int]) -> None:
        self._frames.send(FrameKind.CLOSED, 0, json.dumps(counts).encode())

    def _certificate(self) -> Pem:
        return self._pem

    async def _serve(self, call: Call) -> None:
        number, caller = self._next(), call.caller
        if (peer := self._relay.peer(caller.peer)) is None:
            return  # the client has gone
        admit = partial(self._relay.admit, caller.peer)
        relayed = self._calls[number] = RelayedCall(number, call, self._frames, admit)
        self._frames.send(FrameKind.CALLED, number, json.dumps(caller._replace(peer=peer)).encode())
        try:
            await relayed.run()
        finally:
            del self._calls[number]
            self._frames.send(FrameKind.ENDED, number)

    def _next(self) -> int:
        """Return a number of no other call."""
        self._last = self._last % _MOST_CALLS + 1
        while self._last in self._calls:
            self._last = self._last % _MOST_CALLS + 1
        return self._last


async def _main(descriptor: int) -> NoReturn:
    frames = await FrameSocket.connected(socket.socket(fileno=descriptor))
    returning = asyncio.create_task(memory.return_unused(pause=_LOOK))
    await PortChild(frames).run()
    returning.cancel()
    # gRPC's threads may still run, and it reports the tasks of its calls if they are cancelled.
    os._exit(0)


def main() -> None:
    """Run the port of the evaluator that started this process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the evaluator ends it
    if (prctl := getattr(ctypes.CDLL(None), "prctl", None)) is not None:
        prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    memory.use_one_arena()
    memory.drop_code()
    asyncio.run(_main(int(sys.argv[1])))


if __name__ == "__main__":
    main()

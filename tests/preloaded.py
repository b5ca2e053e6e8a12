"""Starts evaluators and agents as forks of a process that has imported them: importing takes most of the time of a start.

They are processes of their own, as `python -P -m evaluator` starts them: with their own pid, session, environment, output,
signals and exit status. Tests of a start itself start Python.
"""

import array
import asyncio
import contextlib
import functools
import io
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO

from sandbox import cluster, processes

PROGRAMS = ("evaluator", "agent")
_SCRIPTS = {"tuned_evaluator.py": "evaluator", "gpus.py": "agent"}
_STREAMS = 3
SERVER = Path(__file__).parent / "forkserver.py"


class Preloaded:
    """A running program; the methods are those of asyncio.subprocess.Process."""

    def __init__(
        self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._ended = asyncio.create_task(self._end(reader, writer))

    async def _end(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        self.returncode = int(await reader.readline())
        writer.close()
        return self.returncode

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # its end is about to be reported
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Blocking:
    """A running program for tests without an event loop; the methods are those of subprocess.Popen."""

    def __init__(self, connection: socket.socket, stderr: TextIO | None) -> None:
        self.stderr = stderr
        self.returncode: int | None = None
        self._connection = connection
        self._lines = connection.makefile("rb", buffering=0)
        self.pid = int(self._lines.readline())

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises TimeoutError."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            self.returncode = int(self._lines.readline())
            self._lines.close()
            self._connection.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[None, str]:
        """Read stderr to its end; `timeout` is that of the exit after it."""
        text = ""
        if self.stderr is not None and not self.stderr.closed:
            with self.stderr:
                text = self.stderr.read()
        self.wait(timeout)
        return None, text

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # its end is about to be reported
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


async def start(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.DEVNULL,
    stderr: int | IO[bytes] = subprocess.DEVNULL,
) -> Preloaded:
    """Start `python -P -m <program> [argument...]` or `python -P <script> [argument...]`.

    The streams are files, subprocess.DEVNULL or, for `stderr`, subprocess.PIPE.
    """
    connection, pipe = _request(argv, env, (stdin, stdout, stderr))
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    made = Preloaded(int(await reader.readline()), reader, writer)
    if pipe is not None:
        made.stderr = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(made.stderr)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    return made


def start_blocking(
    argv: Sequence[str], env: Mapping[str, str], *, stderr: int | IO[Any] = subprocess.DEVNULL
) -> Blocking:
    """Start such a command as `start` does, in a test without an event loop."""
    connection, pipe = _request(argv, env, (subprocess.DEVNULL, subprocess.DEVNULL, stderr))
    return Blocking(connection, None if pipe is None else io.TextIOWrapper(pipe))


def _request(
    argv: Sequence[str], env: Mapping[str, str], streams: Sequence[int | IO[Any]]
) -> tuple[socket.socket, BinaryIO | None]:
    """Request a fork; return the connection on which its pid and exit status arrive, and the end of the pipe to read, if any."""
    program = program_of(argv)
    assert program is not None, argv
    with contextlib.ExitStack() as stack:
        null = os.open(os.devnull, os.O_RDWR)
        stack.callback(os.close, null)
        fds = [null if one == subprocess.DEVNULL else _number(one) for one in streams]
        pipe = None
        if subprocess.PIPE in fds:
            reading, writing = os.pipe()
            stack.callback(os.close, writing)
            pipe = os.fdopen(reading, "rb")
            fds = [writing if fd == subprocess.PIPE else fd for fd in fds]
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(_server(program)))
        request = json.dumps([list(argv[2:]), dict(env)]).encode()
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        connection.sendmsg([len(request).to_bytes(4, "big")], ancillary)
        connection.sendall(request)
    return connection, pipe


async def run(argv: Sequence[str], *, text: str = "") -> tuple[int, str, str]:
    """Run such a command to its end with a text as stdin; return the exit status, stdout and stderr."""
    with contextlib.ExitStack() as stack:
        files = stdin, stdout, stderr = [
            stack.enter_context(tempfile.TemporaryFile()) for _ in range(_STREAMS)
        ]
        stdin.write(text.encode())
        stdin.seek(0)
        process = await start(argv, os.environ, stdin=stdin, stdout=stdout, stderr=stderr)
        status = await process.wait()
        for file in files:
            file.seek(0)
        return status, stdout.read().decode(), stderr.read().decode()


def program_of(argv: Sequence[str]) -> str | None:
    """Return which program a command line starts; None if it is none of these."""
    if tuple(argv[:3]) == (sys.executable, "-P", "-m"):
        return argv[3] if argv[3] in PROGRAMS else None
    if tuple(argv[:2]) == (sys.executable, "-P"):
        return _SCRIPTS.get(Path(argv[2]).name)
    return None


def _number(stream: int | IO[Any]) -> int:
    return stream if isinstance(stream, int) else stream.fileno()


class Processes(processes.Processes):
    """The sandbox's, which starts these programs as forks."""

    async def _spawn(self, argv: Sequence[str], output: BinaryIO) -> Any:
        if program_of(argv) is None:
            return await super()._spawn(argv, output)
        return await start(argv, processes.loopback_environment(), stdout=output, stderr=output)


class Cluster(cluster.Cluster):
    """The sandbox's, with its evaluator and agents as forks."""

    def __init__(self, spec: cluster.ClusterSpec) -> None:
        super().__init__(spec)
        self.processes = Processes(self.dir / "logs", on_death=spec.on_death)


@functools.cache
def _server(program: str) -> Path:
    """Return the socket of the process to fork: that of all workers, or one started here."""
    return shared / program if shared else start_servers(program) / program


def start_servers(*programs: str) -> Path:
    """Start processes to fork; they import their program when first asked. Returns the folder of their sockets.

    They end with this process, as do their forks.
    """
    folder = Path(tempfile.mkdtemp(prefix="preloaded-"))
    for program in programs:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(folder / program))
        listener.listen()
        with listener:
            process = subprocess.Popen(
                [sys.executable, "-P", str(SERVER), program, str(listener.fileno())],
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
            )
        _servers.append((process, folder))
    return folder


shared: Path | None = None
"""In a worker process: the folder of the sockets that it shares with the others."""
_servers: list[tuple["subprocess.Popen[bytes]", Path]] = []
"""Processes and the folders of their sockets. Held, because a server ends when its stdin is closed."""


def stop() -> None:
    """Stop the processes to fork."""
    while _servers:
        process, folder = _servers.pop()
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)  # it may be that of another, too
    _server.cache_clear()

"""Supervises the real programs: starts them on reserved loopback ports, reports when one ends, leaves none behind."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

import psutil

from plimsoll import logs
from sandbox import pdeathsig

log = logs.get(__name__)

STOP_TIMEOUT = 10.0
_LAST_LINES = 15


class ProcessError(Exception):
    """A program did not start, or ended; the text has the path and the end of its log."""


class HeldPort:
    """A free loopback port that stays reserved while a program restarts.

    A socket is bound to it and never listens: a server with SO_REUSEADDR (what asyncio and gRPC set) may listen there,
    no other program is given it, and a client that connects while the program is down cannot connect to itself.
    """

    def __init__(self, port: int = 0, host: str = "127.0.0.1") -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise ProcessError(f"port {port} on {host} is not free: {error.strerror}") from error
        self.number: int = self._socket.getsockname()[1]
        self.address = f"{host}:{self.number}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the port."""
        self._socket.close()


@dataclass(slots=True)
class _Child:
    process: asyncio.subprocess.Process
    log: Path
    waiter: asyncio.Task[None]


class Processes:
    """The running programs by name. A program that ends is reported and not restarted."""

    def __init__(
        self,
        logs_dir: Path,
        *,
        on_death: Callable[[str, int], None] | None = None,
        stop_timeout: float = STOP_TIMEOUT,
    ) -> None:
        self._logs_dir = logs_dir
        self._stop_timeout = stop_timeout
        self._on_death = on_death
        self._children: dict[str, _Child] = {}

    async def start(self, name: str, argv: Sequence[str]) -> int:
        """Start a program under a name; its output is appended to `<logs>/<name>.log`. Returns its pid."""
        if name in self._children:
            raise ProcessError(f"{name} runs already")
        self._logs_dir.mkdir(parents=True, exist_ok=True)
        path = self._logs_dir / f"{name}.log"
        with path.open("ab") as output:
            process = await self._spawn(argv, output)
        waiter = asyncio.create_task(self._wait(name, process))
        self._children[name] = _Child(process, path, waiter)
        log.debug("started", process=name, pid=process.pid)
        return process.pid

    async def _spawn(self, argv: Sequence[str], output: BinaryIO) -> asyncio.subprocess.Process:
        launcher = (sys.executable, "-I", "-S", str(Path(pdeathsig.__file__)), str(os.getpid()))
        return await asyncio.create_subprocess_exec(
            *launcher,
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=loopback_environment(),
            # Away from the terminal's process group: Ctrl-C reaches the sandbox alone, which then stops them.
            start_new_session=True,
        )

    async def stop(self, name: str, *, kill: bool = False) -> None:
        """Stop a program and its descendants, and wait until they are gone.

        SIGTERM goes to the program alone, which ends its own children. What still runs after `stop_timeout` gets SIGKILL, as
        do descendants that outlive the program. `kill`: SIGKILL at once. Raises ProcessError if it does not run.
        """
        child = self._children.pop(name, None)
        if child is None:
            raise ProcessError(f"{name} does not run")
        below = descendants(child.process.pid)
        _signal(child.process, signal.SIGKILL if kill else signal.SIGTERM)
        try:
            async with asyncio.timeout(self._stop_timeout):
                await child.process.wait()
        except TimeoutError:
            log.warning("does not stop, killed", process=name, pid=child.process.pid)
        finally:
            _signal(child.process, signal.SIGKILL)
            await child.process.wait()
            await asyncio.to_thread(end, below)
            await child.waiter

    def pid(self, name: str) -> int | None:
        """Return the pid of a running program, or None."""
        child = self._children.get(name)
        return child.process.pid if child else None

    def check(self, name: str) -> None:
        """Raise ProcessError with the end of its log if the program does not run."""
        if name not in self._children:
            raise ProcessError(f"{name} died{self.log_end(name)}")

    def log_end(self, name: str) -> str:
        """Return the path and the end of a program's log, for an error text."""
        path = self._logs_dir / f"{name}.log"
        if not path.is_file():
            return ""
        lines = path.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        return "\n".join((f"; {path} ends with:", *(f"    {line}" for line in lines)))

    async def close(self) -> None:
        """Stop all programs concurrently."""
        # A program that ends by itself meanwhile raises ProcessError and is gone too.
        stops = (self.stop(name) for name in tuple(self._children))
        await asyncio.gather(*stops, return_exceptions=True)

    async def _wait(self, name: str, process: asyncio.subprocess.Process) -> None:
        status = await process.wait()
        child = self._children.get(name)
        if child is None or child.process is not process:
            return  # we stopped it
        del self._children[name]
        log.error(
            "process died, and nothing restarts it",
            process=name,
            pid=process.pid,
            status=status,
            log=str(child.log),
        )
        if self._on_death is not None:
            self._on_death(name, status)


def descendants(pid: int) -> list[psutil.Process]:
    """Return the children of a process, their children and so on; empty if there is no such process.

    Call it while the process runs: its orphans belong to another parent. A psutil.Process is identified by pid and start
    time, so a pid that is used again is not mistaken for it.
    """
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def end(processes: Sequence[psutil.Process]) -> None:
    """Send SIGKILL to processes that still run, and wait until they are gone."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=STOP_TIMEOUT)


def loopback_environment() -> dict[str, str]:
    """Return the environment without proxies: the programs connect to this machine only."""
    return {
        name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")
    }


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)

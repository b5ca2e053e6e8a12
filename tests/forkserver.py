"""A process that imports a program when first asked and forks itself for each start of it: `forkserver.py <program> <listening socket>`.

A connection carries one start: argv and environment as JSON after four bytes of length, with stdin, stdout and stderr; the
answers are the pid and, later, the exit status. The server and its forks end when its stdin is closed.
"""

import array
import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
from typing import NoReturn

_PORT = "evaluator.core.sources.agents.port_child"
_ON_DEMAND = {
    "evaluator": (_PORT,),
    "agent": (
        "agent.rules.engine",
        "agent.rules.state_file",
        "agent.stream.client",
        "agent.stream.credentials",
    ),
}
"""Modules by program that main() imports only with some flags, and those of its other process: most tests have them."""
_STANDARD = 3
"""stdin, stdout and stderr."""


class Server:
    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._ready = selectors.DefaultSelector()
        self._ready.register(listener, selectors.EVENT_READ, self._start)
        self._ready.register(sys.stdin, selectors.EVENT_READ, self._stop)
        self._running: dict[int, tuple[int, socket.socket]] = {}
        """Pid and connection by pidfd."""

    def serve(self) -> list[str]:
        """Fork for each request. Returns, in a fork, what it has to run."""
        while True:
            for key, _ in self._ready.select():
                if argv := key.data(key.fd):
                    return argv

    def _start(self, _fd: int) -> list[str] | None:
        connection, _peer = self._listener.accept()
        argv, env, fds = _request(connection)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            self._close(
                connection
            )  # else garbage collection closes these numbers later, which are others by then
            for number, fd in enumerate(fds):
                os.dup2(fd, number)
            os.closerange(_STANDARD, max(*fds, *self._running) + 1)
            os.environ.clear()
            os.environ.update(env)
            return argv
        for fd in fds:
            os.close(fd)
        connection.sendall(b"%d\n" % pid)
        handle = os.pidfd_open(pid)
        self._running[handle] = pid, connection
        self._ready.register(handle, selectors.EVENT_READ, self._ended)
        return None

    def _close(self, connection: socket.socket) -> None:
        self._ready.close()
        for inherited in (self._listener, connection, *(c for _, c in self._running.values())):
            inherited.close()

    def _ended(self, handle: int) -> None:
        pid, connection = self._running.pop(handle)
        self._ready.unregister(handle)
        os.close(handle)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with connection, contextlib.suppress(ConnectionError):
            connection.sendall(b"%d\n" % status)

    def _stop(self, _fd: int) -> None:
        for pid, _connection in self._running.values():
            os.kill(pid, signal.SIGKILL)
        os._exit(0)


def _request(connection: socket.socket) -> tuple[list[str], dict[str, str], list[int]]:
    head, ancillary, _flags, _address = connection.recvmsg(4, socket.CMSG_SPACE(_STANDARD * 4))
    fds = array.array("i")
    fds.frombytes(ancillary[0][2])
    with connection.makefile("rb") as stream:
        argv, env = json.loads(stream.read(int.from_bytes(head, "big")))
    return argv, env, fds.tolist()


class _Port(subprocess.Popen[bytes]):
    """The process of an evaluator's agents' port, forked before the evaluator has threads. It waits for its socket.

    As in production, it is the evaluator's child and ends with it.
    """

    def __init__(self) -> None:
        self.args, self.returncode = _PORT, None
        self.stdin = self.stdout = self.stderr = None
        self._waitpid_lock = threading.Lock()
        self._child_created = True
        self._connection, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            self._connection.close()
            _serve_port(theirs)
        theirs.close()

    def give(self, end: socket.socket) -> None:
        """Let it serve the port."""
        with self._connection:
            socket.send_fds(self._connection, [b"."], [end.fileno()])


def _serve_port(connection: socket.socket) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with connection:
        _, fds, _, _ = socket.recv_fds(connection, 1, 1)
    if fds:
        sys.argv = [_PORT, str(fds[0])]
        sys.modules[_PORT].main()
    os._exit(0)  # the evaluator ended without the port


def _prepare_port() -> None:
    """Let the evaluator's port process be a fork, too; if that ends, the evaluator starts others as usual."""
    module = importlib.import_module("evaluator.core.sources.agents.port_process")
    waiting, usual = [_Port()], module._spawn

    def spawn(end: socket.socket) -> subprocess.Popen[bytes]:
        if not waiting:
            return usual(end)
        process = waiting.pop()
        process.give(end)
        return process

    module._spawn = spawn


def _leave(statuses: list[int]) -> None:
    """End a fork that returned or exited with a status, at the end of all that runs at exit, and free no object.

    Freeing writes to all objects of the modules, and so copies their pages: 40 ms of CPU for each fork.
    """
    if statuses:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(statuses[0])


def _run(argv: list[str], statuses: list[int]) -> None:
    try:
        if argv[0] == "-m":
            sys.argv = argv[1:]
            runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = argv
            runpy.run_path(argv[0], run_name="__main__")
        statuses.append(0)
    except SystemExit as end:
        if isinstance(end.code, int | None):  # Python prints others
            statuses.append(end.code or 0)
        raise


def main() -> None:
    program, number = sys.argv[1:]
    statuses: list[int] = []
    atexit.register(_leave, statuses)  # what is registered first is called last
    listener = socket.socket(fileno=int(number))
    ready, _, _ = select.select([listener, sys.stdin], [], [])
    if sys.stdin in ready:  # it was never asked
        return
    for module in (f"{program}.main", *_ON_DEMAND.get(program, ())):
        importlib.import_module(module)
    if program == "agent":
        importlib.import_module("collectors.registry").entries()  # imports all collectors
    gc.freeze()  # a collection would write to the objects of these modules, and so copy their pages in each fork
    argv = Server(listener).serve()
    if program == "evaluator":
        _prepare_port()
    _run(argv, statuses)


if __name__ == "__main__":
    main()

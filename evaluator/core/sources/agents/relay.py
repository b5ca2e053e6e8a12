"""Passes bytes between clients of the agents' port and gRPC. Imports nothing of the evaluator but `unadmitted`.

gRPC for Python can neither be handed a connection nor bound what it buffers of one. So it listens on a Unix socket, and this
bounds what a client sends until it is admitted. One epoll set for all connections costs a third of asyncio's transports.
"""

import asyncio
import contextlib
import errno
import itertools
import os
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NoReturn

from evaluator.core.sources.agents.unadmitted import Bounds, Unadmitted, network
from plimsoll.http.addresses import Address, bind

_GATHERED = 0.01
"""Seconds for which bytes wait for those of other connections: each turn wakes the event loop and gRPC."""
_TICK = 0.1
"""Seconds between two looks at connections that wait, at most."""
_CHUNK = 16 << 10
"""Bytes read at once, and held at most for each direction of a connection."""
_BUFFER = 64 << 10
"""Bytes that the kernel holds of each client; it would double them up to 6 MiB."""
_BACKLOG = 4096
_EVENTS, _ACCEPTED = 256, 64
"""Handled in a turn, at most."""
_REST = 1.0
"""Seconds without accepting when there are no more files."""
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_GONE = select.EPOLLHUP | select.EPOLLERR

Closed = Callable[[Mapping[str, int]], None]
"""Called with how many connections were closed beyond a bound, by address."""


class _End:
    """One of the two sockets of a connection: the client's, or that to gRPC."""

    __slots__ = ("connection", "events", "other", "socket", "unsent")

    def __init__(self, connected: socket.socket, connection: "_Connection") -> None:
        self.socket = connected
        self.connection = connection
        self.other: _End | None = None
        self.unsent = b""
        self.events = 0


class _Connection:
    """A client's connection; whether the client is admitted."""

    __slots__ = ("admitted", "client", "host", "number", "port")

    def __init__(self, number: int, accepted: socket.socket, host: str, port: int) -> None:
        self.number = number
        self.client = _End(accepted, self)
        self.host = host
        self.port = port
        self.admitted = False

    @property
    def peer(self) -> str:
        """The client in gRPC's format."""
        family = "ipv6" if ":" in self.host else "ipv4"
        return f"{family}:{Address(self.host, self.port)}"


class Relay:
    """A TCP port whose connections are passed to gRPC, which listens on `target`."""

    def __init__(self, bounds: Bounds, closed: Closed) -> None:
        self._name = f"plimsoll-{os.urandom(16).hex()}"
        self._limit = bounds.connections
        self._unadmitted = Unadmitted(bounds)
        self._report_closed = closed
        self._epoll = select.epoll()
        self._listener: socket.socket
        self._numbers = itertools.count(1)
        self._connections: dict[int, _Connection] = {}
        self._ends: dict[int, _End] = {}
        self._ended: list[_End] = []
        self._excessive = Counter[str]()
        self._rests_until = 0.0
        self._next_look = 0.0

    @property
    def target(self) -> str:
        """Where gRPC must listen, in its format: a name in this network namespace, without a file."""
        return f"unix-abstract:{self._name}"

    def peer(self, name: str) -> str | None:
        """Return the client of a connection that gRPC names so; None if it has ended."""
        found = self._find(name)
        return found.peer if found else None

    def admit(self, name: str) -> None:
        """Pass on from now on whatever the client of a connection sends."""
        if (found := self._find(name)) is not None and not found.admitted:
            found.admitted = True
            self._unadmitted.admit(found.number)

    def listen(self, address: Address) -> int:
        """Listen and return the port. Raises ListenError."""
        self._listener = bind(address)
        self._listener.setblocking(False)
        self._listener.listen(_BACKLOG)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._epoll.register(self._listener, select.EPOLLIN)
        return int(self._listener.getsockname()[1])

    async def run(self) -> NoReturn:
        """Pass bytes on until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            if self._turn(time.monotonic()):
                await asyncio.sleep(_GATHERED)
            else:
                await self._readable(loop)

    async def _readable(self, loop: asyncio.AbstractEventLoop) -> None:
        ready = asyncio.Event()
        timer = loop.call_later(_TICK, ready.set)
        loop.add_reader(self._epoll, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._epoll)
            timer.cancel()

    def _turn(self, now: float) -> bool:
        """Handle what has happened, and return whether anything has.

        Sockets are closed afterwards: a number of a file that is used again has stale events.
        """
        accepts, found = False, self._epoll.poll(0, _EVENTS)
        for number, events in found:
            if (end := self._ends.get(number)) is None:
                accepts |= number == self._listener.fileno()
            else:
                self._isolated(end, events, now)
        if now >= self._next_look:
            self._next_look = now + _TICK
            self._look(now)
        if accepts:
            self._accept(now)
        for end in self._ended:
            end.socket.close()
        self._ended.clear()
        return bool(found)

    def _isolated(self, end: _End, events: int, now: float) -> None:
        """Handle events of one socket; an error ends its connection."""
        connection = end.connection
        try:
            self._handle(end, events, now)
        except OSError:
            self._end(connection)
        except Exception as error:  # noqa: BLE001 (isolated)
            self._end(connection)
            message = "a connection of the agents' port was closed"
            context = {"message": message, "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    def _handle(self, end: _End, events: int, now: float) -> None:
        if end.connection.number not in self._connections:
            return
        if events & select.EPOLLOUT and end.unsent:
            self._send(end, end.unsent)
        if events & select.EPOLLIN:
            self._read(end, now)
        elif events & _GONE:
            self._end(end.connection)

    def _look(self, now: float) -> None:
        """Read connections that have waited, close silent ones, accept again."""
        for number in tuple(self._unadmitted.startable(now)):
            self._read_on(self._connections[number].client)
        for number in tuple(self._unadmitted.silent(now)):
            self._end(self._connections[number])
        if self._rests_until and now >= self._rests_until:
            self._rests_until = 0.0
            self._epoll.modify(self._listener, select.EPOLLIN)
        if self._excessive:
            self._report_closed(dict(self._excessive))
            self._excessive.clear()

    def _accept(self, now: float) -> None:
        for _ in range(_ACCEPTED):
            try:
                accepted, (host, port, *_) = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._rests_until = now + _REST
                    self._epoll.modify(self._listener, 0)
                    return
                continue  # the client has gone
            if len(self._connections) >= self._limit:
                accepted.close()
                continue
            self._enter(accepted, host, port, now)

    def _enter(self, accepted: socket.socket, host: str, port: int, now: float) -> None:
        accepted.setblocking(False)
        connection = _Connection(next(self._numbers), accepted, host.removeprefix("::ffff:"), port)
        self._connections[connection.number] = connection
        excessive = self._unadmitted.enter(connection.number, connection.host, now)
        try:
            self._watch(connection.client, select.EPOLLIN)
        except OSError:  # fs.epoll.max_user_watches
            self._end(connection)
            return
        if excessive is not None:
            self._close(self._connections[excessive])

    def _read(self, end: _End, now: float) -> None:
        """Pass on what has arrived at one end."""
        connection, number = end.connection, end.connection.number
        counts = not connection.admitted and end is connection.client
        if counts and not self._unadmitted.start(number, now):
            self._watch(end, 0)
            return
        try:
            data = end.socket.recv(_CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._finish(end)
            return
        if counts and not self._unadmitted.receive(number, len(data), now):
            self._close(connection)
            return
        self._send(end.other or self._connect(connection), data)

    def _connect(self, connection: _Connection) -> _End:
        """Connect to gRPC, once a client has sent something. Raises OSError."""
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            connected.bind(f"\0{self._name}/{connection.number}")
            connected.connect(f"\0{self._name}")
        except OSError:  # also if too many connections wait for gRPC
            connected.close()
            raise
        grpc = _End(connected, connection)
        grpc.other, connection.client.other = connection.client, grpc
        self._watch(grpc, select.EPOLLIN)
        return grpc

    def _send(self, end: _End, data: bytes) -> None:
        """Send to one end, and read no more of the other end before all is sent."""
        sent = 0
        with contextlib.suppress(BlockingIOError):
            sent = end.socket.send(data)
        end.unsent = data[sent:]
        if end.unsent:
            self._watch(end, end.events | select.EPOLLOUT)
            if end.other is not None:
                self._watch(end.other, end.other.events & ~select.EPOLLIN)
        elif end.events & select.EPOLLOUT:
            self._watch(end, end.events & ~select.EPOLLOUT)
            if end.other is not None:
                self._read_on(end.other)

    def _finish(self, end: _End) -> None:
        """An end sends no more. gRPC closes a connection as a whole, and when its client sends no more."""
        other = end.other
        if other is None or end is not end.connection.client:
            self._end(end.connection)
            return
        other.socket.shutdown(socket.SHUT_WR)
        self._watch(end, end.events & ~select.EPOLLIN)

    def _read_on(self, end: _End) -> None:
        self._watch(end, end.events | select.EPOLLIN)

    def _watch(self, end: _End, events: int) -> None:
        """Wait for these events of a socket, and for its end."""
        number = end.socket.fileno()
        if number not in self._ends:
            self._epoll.register(number, events)
            self._ends[number] = end
        elif events != end.events:
            self._epoll.modify(number, events)
        end.events = events

    def _close(self, connection: _Connection) -> None:
        """Close a connection beyond a bound, and count it."""
        self._excessive[network(connection.host)] += 1
        self._end(connection)

    def _end(self, connection: _Connection) -> None:
        if self._connections.pop(connection.number, None) is None:
            return
        if not connection.admitted:
            self._unadmitted.end(connection.number, time.monotonic())
        for end in (connection.client, connection.client.other):
            if end is not None:
                if self._ends.pop(end.socket.fileno(), None) is not None:
                    self._epoll.unregister(end.socket)
                self._ended.append(end)

    def _find(self, name: str) -> _Connection | None:
        """Return the connection that gRPC names `unix-abstract:NAME/NUMBER`."""
        number = name.removeprefix(f"{self.target}/")
        return self._connections.get(int(number)) if number.isdecimal() else None

    def close(self) -> None:
        """Close all connections."""
        for connection in tuple(self._connections.values()):
            self._end(connection)
        for end in self._ended:
            end.socket.close()
        self._listener.close()
        self._epoll.close()

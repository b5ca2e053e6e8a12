"""Calls of agents, and the frames by which the evaluator serves those of the process that gRPC runs in.

Imports nothing of the evaluator but `unadmitted`: that process loads it, too.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from enum import IntEnum, StrEnum
from typing import NamedTuple, NoReturn, Protocol, Self

from evaluator.core.sources.agents.unadmitted import Bounds


class Code(StrEnum):
    """Status codes of gRPC with which calls are rejected."""

    ALREADY_EXISTS = "ALREADY_EXISTS"
    INTERNAL = "INTERNAL"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    UNAVAILABLE = "UNAVAILABLE"


class CallEndedError(Exception):
    """A message cannot be sent, because the call or its connection has ended."""


class Caller(NamedTuple):
    """What gRPC knows of a client."""

    peer: str
    """In gRPC's format, such as `ipv4:10.0.0.1:4711`."""
    names: tuple[str, ...] = ()
    """Common name and DNS names of its certificate."""
    resumed: bool = False
    """Whether its connection resumed a TLS session."""
    token: str = ""
    """Of `authorization: Bearer` in the metadata; empty if there is none."""


class Call(Protocol):
    """A call: a stream of messages in both directions."""

    @property
    def caller(self) -> Caller:
        """The client."""
        ...

    async def read(self) -> bytes | None:
        """Return the next message; None after the last one."""
        ...

    async def write(self, message: bytes) -> None:
        """Send a message. Raises CallEndedError."""
        ...

    async def abort(self, code: Code, sentence: str) -> NoReturn:
        """End the call with a status. Raises asyncio.CancelledError, always: gRPC ends the call on it."""
        ...


Serve = Callable[[Call], Awaitable[None]]
"""Serves a call until it ends; cancelled if the client ends it."""


class Pem(NamedTuple):
    """The certificate of the port, its key, and the CA of client certificates (empty: clients need none)."""

    cert: bytes
    key: bytes
    ca: bytes = b""


class ServerOptions(NamedTuple):
    """Channel options of a gRPC server, how many calls it serves at a time, and bounds of its connections."""

    channel: tuple[tuple[str, int], ...]
    calls: int
    bounds: Bounds = Bounds()


class CallPort(Protocol):
    """A port that serves calls."""

    async def open(self, serve: Serve, options: ServerOptions) -> int:
        """Listen and return the port. Raises OSError if the address cannot be bound."""
        ...

    async def close(self) -> None:
        """End all calls and stop listening."""
        ...


WINDOW = 4 << 10
"""Bytes of a call's messages (`size`) that its port sends before the evaluator asks for more; the last one may exceed them."""
FIRST_WINDOW = 1
"""That of a call that begins, hence one message: its client is not admitted yet."""
_OBJECT = 64
"""Bytes of a message besides its own, at least."""
_HEAD = struct.Struct("=IIB")
_GATHERED = 0.01
"""Seconds for which frames wait for others."""
_CHUNK = 256 << 10
"""Bytes that are read at once, and that are sent at once at the latest."""


def size(message: bytes) -> int:
    """Return how many bytes of a window a message takes."""
    return _OBJECT + len(message)


class FrameKind(IntEnum):
    """What a frame says. The first ones are about the port and have 0 for a call."""

    OPEN = 1
    """To the port: listen, with these settings (JSON)."""
    CERTIFICATE = 2
    """To the port: use this certificate for new connections (JSON)."""
    LISTENING = 3
    """From the port: it listens on this number."""
    FAILED = 4
    """From the port: it cannot listen, because of this."""
    CALLED = 5
    """From the port: a call has begun, by this caller (JSON)."""
    READ = 6
    """To the port: the messages of a window were read, send another window."""
    MESSAGE = 7
    """From the port: the message. To the port: send it to the client."""
    LAST = 8
    """From the port: there is no further message."""
    WRITTEN = 9
    """From the port: the message was sent; with a content it was not, because of this."""
    END = 10
    """To the port: end the call, with this code and sentence (JSON), or as completed."""
    ENDED = 11
    """From the port: the call has ended."""
    CLOSED = 12
    """From the port: it closed connections that sent too much before they were admitted, so many for each address (JSON)."""


class Frame(NamedTuple):
    """A frame: over the socket, the content's length and the call's number (unsigned 32-bit integers in the machine's order), the
    kind (one byte), and the content.
    """

    kind: FrameKind
    call: int
    content: bytes


class FrameSocket:
    """One end of a pair of Unix sockets. Frames of a few milliseconds are sent together, since each write wakes a process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._waiting: list[bytes] = []
        self._size = 0

    @classmethod
    async def connected(cls, end: socket.socket) -> Self:
        """Return frames over a connected socket, which they own."""
        return cls(*await asyncio.open_unix_connection(sock=end, limit=_CHUNK))

    def send(self, kind: FrameKind, call: int = 0, content: bytes = b"") -> None:
        """Send a frame soon; it is lost if the other end is closed."""
        if not self._waiting:
            self._loop.call_later(_GATHERED, self._flush)
        self._waiting += _HEAD.pack(len(content), call, kind), content
        self._size += len(content)
        if self._size > _CHUNK:
            self._flush()

    def _flush(self) -> None:
        """Hand the frames that wait to the socket."""
        if self._waiting and not self._writer.is_closing():
            self._writer.write(b"".join(self._waiting))
        self._waiting.clear()
        self._size = 0

    async def drain(self) -> None:
        """Wait until the other end has read most of what was sent. Raises ConnectionError if it is closed."""
        await self._writer.drain()

    async def frames(self) -> AsyncIterator[Frame]:
        """Yield the frames of the other end until it is closed."""
        rest = b""
        while chunk := await self._read():
            rest, begin = rest + chunk, 0
            while len(rest) - begin >= _HEAD.size:
                length, call, kind = _HEAD.unpack_from(rest, begin)
                content = begin + _HEAD.size
                if len(rest) - content < length:
                    break
                begin = content + length
                yield Frame(FrameKind(kind), call, rest[content:begin])
            rest = rest[begin:]

    async def _read(self) -> bytes:
        try:
            return await self._reader.read(_CHUNK)
        except ConnectionError:
            return b""

    def close(self) -> None:
        """Close this end."""
        self._writer.close()

"""A raw HTTP/2 and gRPC client that sends exactly the given frames and reads only on request."""

import asyncio
import contextlib
import struct

from tests.patience import PATIENCE
from wire import telemetry_pb2

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PATH = "/plimsoll.telemetry.v1.Telemetry/Stream"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    *(0, 1, 3, 4),
    *(6, 7, 8, 9),
)
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """A header in HPACK without a table and without Huffman coding."""
    parts = (part.encode() if isinstance(part, str) else part for part in (name, value))
    return b"\x00" + b"".join(_length(len(part)) + part for part in parts)


def _length(size):
    if size < 127:
        return bytes([size])
    size, out = size - 127, bytearray([127])
    while size >= 128:
        out.append(size % 128 | 128)
        size //= 128
    return bytes([*out, size])


def call_headers(*more):
    usual = (
        *((":method", "POST"), (":scheme", "https"), (":path", PATH)),
        *((":authority", "x"), ("te", "trailers"), ("content-type", "application/grpc")),
    )
    return b"".join(literal(name, value) for name, value in (*usual, *more))


def message(body, *, size=None):
    """A gRPC message; `size` overrides the announced length."""
    return struct.pack(">BI", 0, len(body) if size is None else size) + body


def report(**fields):
    return message(telemetry_pb2.Report(**fields).SerializeToString())


class Peer:
    """One connection."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port, tls=None, *, greet=True):
        if tls is not None:
            tls.set_alpn_protocols(["h2"])
        made = cls(*await asyncio.open_connection("127.0.0.1", port, ssl=tls))
        if greet:
            await made.send(PREFACE + frame(SETTINGS, 0, 0))
        return made

    async def send(self, *pieces):
        """Write; errors of a closed peer are ignored."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                self.writer.write(b"".join(pieces))
                await self.writer.drain()

    async def call(self, stream, *bodies, more=()):
        """Open a stream and send the given bytes on it."""
        opening = frame(HEADERS, END_HEADERS, stream, call_headers(*more))
        await self.send(opening, *(frame(DATA, 0, stream, body) for body in bodies))

    async def frames(self):
        """The peer's frames until it closes: (kind, flags, stream, payload)."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            async with asyncio.timeout(PATIENCE):
                while True:
                    head = await self.reader.readexactly(9)
                    size = int.from_bytes(head[:3])
                    kind, flags, stream = struct.unpack(">BBI", head[3:])
                    yield kind, flags, stream, await self.reader.readexactly(size)

    async def until(self, wanted):
        """The first frame of a kind; None if the connection ends before."""
        async for found in self.frames():
            if found[0] == wanted:
                return found
        return None

    async def closed(self):
        """Wait until the peer has closed; TimeoutError if it does not."""
        async for _ in self.frames():
            pass
        return True

    def vanish(self):
        self.writer.transport.abort()

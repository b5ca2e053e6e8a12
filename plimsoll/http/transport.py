"""Transport of a connection's bytes: received data goes directly into the reader's buffer, sending waits for the peer."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, cast

from plimsoll.http.types import Buffer

_AHEAD = 16 << 10
"""Maximum bytes received ahead of a read."""
_SLICE = 256 << 10
"""Bytes sent at a time; TLS holds them twice."""


class Transport(asyncio.BufferedProtocol):
    """One connection, plain or with TLS. One reader and one writer at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._ahead = memoryview(bytearray(_AHEAD))
        self._kept = 0  # unread bytes in it
        self._back = b""  # data put back, returned first
        self._target: memoryview | None = None
        self._filled = 0  # bytes in it
        self._ended = False
        self._secured = False
        self._lost = (
            ""  # the reason; the exception itself refers to frames, and these to this stream
        )
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._taking = True  # whether the peer takes what is sent

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._secured = transport.get_extra_info("sslcontext") is not None
        # Paused as soon as the kernel does not take everything, so that no copies pile up. With a limit of 0, TLS would
        # always be paused.
        self._transport.set_write_buffer_limits(high=1 if self._secured else 0, low=0)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._target is not None:
            return self._target[self._filled :]
        return self._ahead[self._kept :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._target is None:
            self._kept += nbytes
            if self._kept == _AHEAD:
                self.transport.pause_reading()
            _wake(self._reader)
            return
        self._filled += nbytes
        if self._filled == len(self._target):
            self._target = None
            _wake(self._reader)

    def eof_received(self) -> bool:
        self._ended = True
        _wake(self._reader)
        return not self._secured  # requests already sent are still answered; TLS has no half-close

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._lost = str(exc or "") or "the connection was closed"
        _wake(self._reader)
        _wake(self._writer)

    def pause_writing(self) -> None:
        self._taking = False

    def resume_writing(self) -> None:
        self._taking = True
        _wake(self._writer)

    # Called by a connection.

    @property
    def transport(self) -> asyncio.Transport:
        """The transport of an established connection."""
        assert self._transport is not None
        return self._transport

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        """Return a TLS client's certificate; None without TLS or a certificate."""
        certificate: Mapping[str, Any] | None = self.transport.get_extra_info("peercert")
        return certificate or None

    async def some(self) -> bytes:
        """Return received data, at least one byte; empty once the peer has closed its half."""
        while not self._back and not self._kept and not self._ended:
            await self._read()
        return self.received()

    def received(self) -> bytes:
        """Return what has been received and not been read yet."""
        if self._back:
            data, self._back = self._back, b""
            return data
        data, self._kept = bytes(self._ahead[: self._kept]), 0
        return data

    def put_back(self, data: bytes) -> None:
        """Return data to the front of the stream."""
        self._back = data + self._back

    async def fill(self, buffer: memoryview) -> int:
        """Read until a buffer is full or the peer has closed its half. Returns the number of bytes."""
        self._filled = 0
        while self._filled < len(buffer) and (self._back or self._kept):
            data = await self.some()
            end = min(self._filled + len(data), len(buffer))
            taken = end - self._filled
            buffer[self._filled : end] = data[:taken]
            self._filled = end
            self.put_back(data[taken:])
        if self._filled < len(buffer):
            await self._fill_rest(buffer)
        return self._filled

    async def _fill_rest(self, buffer: memoryview) -> None:
        self._target = buffer
        try:
            while self._filled < len(buffer) and not self._ended:
                await self._read()
        finally:
            self._target = None

    @property
    def filled(self) -> int:
        """Bytes in the buffer that is, or was last, being filled."""
        return self._filled

    async def send(self, parts: Iterable[Buffer]) -> None:
        """Send, and wait until the kernel has taken everything. Raises ConnectionError if the peer is gone."""
        for part in parts:
            view = memoryview(part)
            for begin in range(0, len(view), _SLICE):
                self._check()
                self.transport.write(view[begin : begin + _SLICE])
                if not self._taking:
                    await self._written()

    def end_our_half(self) -> None:
        """Close our half; TLS cannot do so."""
        if self.transport.can_write_eof():
            with contextlib.suppress(OSError):
                self.transport.write_eof()

    async def close(self, patience: float) -> None:
        """Close the connection and wait until it is closed, at most `patience` seconds."""
        if self._lost or self.transport.get_write_buffer_size():
            return  # closing would wait for a peer that does not read
        if not self.transport.is_closing():
            self._kept = 0
            self.transport.resume_reading()  # the peer's close may be waiting to be read
            self.transport.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while not self._lost:
                    await self._more()

    def abort(self) -> None:
        """Close the connection at once and release its buffers. Nothing may be called afterwards.

        The transport refers to this stream, so memory is freed only once this stream does not refer to it.
        """
        self.transport.abort()
        self._transport = None
        self._ahead, self._back, self._kept = memoryview(b""), b"", 0

    async def _read(self) -> None:
        if not self._lost:
            self.transport.resume_reading()
        await self._more()

    async def _more(self) -> None:
        self._reader = asyncio.get_running_loop().create_future()
        await self._reader

    async def _written(self) -> None:
        self._writer = asyncio.get_running_loop().create_future()
        await self._writer
        self._check()

    def _check(self) -> None:
        if self._lost:
            raise ConnectionResetError(self._lost)


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)

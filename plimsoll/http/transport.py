"""A connection's bytes: what comes goes into the buffer that the reader has at hand, what goes waits for the peer to take it."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, cast

from plimsoll.http.types import Buffer

_AHEAD = 16 << 10
"""Bytes that are taken in though nobody has asked for them yet."""
_SLICE = 256 << 10
"""Bytes that are on their way at once; under TLS they are there twice."""


class Transport(asyncio.BufferedProtocol):
    """One connection, plain or with TLS. Only one reader and one writer at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._ahead = memoryview(bytearray(_AHEAD))
        self._kept = 0  # bytes of it that were not read yet
        self._back = b""  # what was read and put back, and so comes first
        self._target: memoryview | None = None
        self._filled = 0  # bytes of it
        self._ended = False
        self._secured = False
        self._lost = ""  # why; the exception itself refers to frames, and these to this stream
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._taking = True  # whether the peer takes what is sent to it

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._secured = transport.get_extra_info("sslcontext") is not None
        # Full as soon as the kernel does not take everything, so that no copies pile up. TLS calls a limit of 0 full always.
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
        return not self._secured  # what was asked is still answered; TLS has no halves

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

    # What a connection calls.

    @property
    def transport(self) -> asyncio.Transport:
        """Of a connection that was made."""
        assert self._transport is not None
        return self._transport

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        """What a TLS client showed; None without TLS or a certificate."""
        found: Mapping[str, Any] | None = self.transport.get_extra_info("peercert")
        return found or None

    async def some(self) -> bytes:
        """What came, at least a byte; nothing once the peer has ended its half."""
        while not self._back and not self._kept and not self._ended:
            await self._read()
        if self._back:
            data, self._back = self._back, b""
            return data
        data, self._kept = bytes(self._ahead[: self._kept]), 0
        return data

    def put_back(self, data: bytes) -> None:
        """The end of what `some` gave was too much: it comes first again."""
        self._back = data + self._back

    async def fill(self, buffer: memoryview) -> int:
        """Read until a buffer is full, or the peer has ended its half; how many bytes came."""
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
        """Bytes of the buffer that is being filled, or was last."""
        return self._filled

    async def send(self, parts: Iterable[Buffer]) -> None:
        """Write, and wait until the kernel has taken everything. Raises ConnectionError if the peer is gone."""
        for part in parts:
            view = memoryview(part)
            for begin in range(0, len(view), _SLICE):
                self._check()
                self.transport.write(view[begin : begin + _SLICE])
                if not self._taking:
                    await self._written()

    def end_our_half(self) -> None:
        """The peer will hear no more of us, which over TLS cannot be told."""
        if self.transport.can_write_eof():
            with contextlib.suppress(OSError):
                self.transport.write_eof()

    async def close(self, patience: float) -> None:
        """Close the connection and wait until it is closed, at most `patience` seconds."""
        if self._lost or self.transport.get_write_buffer_size():
            return  # closing would wait for a peer to take what it does not take
        if not self.transport.is_closing():
            self._kept = 0
            self.transport.resume_reading()  # the peer's half of the end may be waiting to be read
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

"""Request bodies: read into one buffer of their announced size, and no more of them at a time than may be held."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus

from plimsoll.http.heads import CONTINUE, Framing, Reading
from plimsoll.http.limits import Budget, Limits
from plimsoll.http.messages import Buffer, RefusedError
from plimsoll.http.stream import Stream

_RETRY = (("retry-after", "1"),)


class Bodies:
    """Reads the bodies of one server's requests."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._budget = Budget(limits.bodies_bytes)

    @contextlib.asynccontextmanager
    async def read(
        self, stream: Stream, reading: Reading, framing: Framing
    ) -> AsyncIterator[Buffer]:
        """A whole body, which is held until the block ends. Raises RefusedError for one that cannot be had."""
        held = _Held(self._budget)
        try:
            yield await self._received(stream, reading, framing, held)
        finally:
            held.give_back()

    async def _received(
        self, stream: Stream, reading: Reading, framing: Framing, held: "_Held"
    ) -> Buffer:
        if framing.length == 0:
            stream.put_back(reading.rest)
            return b""
        if framing.length is not None:
            self._admit(framing.length)
            held.take(framing.length)
        if framing.asks_first:
            await stream.send([CONTINUE])
        body = _Chunked(self._admit, held) if framing.length is None else _Sized(framing.length)
        try:
            async with asyncio.timeout(self._limits.body):
                return await body.read(stream, reading)
        except TimeoutError as error:
            raise RefusedError(
                HTTPStatus.REQUEST_TIMEOUT,
                f"a body that did not come in {self._limits.body:g} s: {body.so_far}",
            ) from error

    def _admit(self, size: int) -> None:
        if size > self._limits.body_bytes:
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"a body of {size} bytes or more, and {self._limits.body_bytes} are allowed",
            )


class _Held:
    """What one request takes of the budget."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._size = 0

    def take(self, size: int) -> None:
        if not self._budget.take(size):
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"bodies of {self._budget.size - self._budget.left} bytes are being answered: try again",
                headers=_RETRY,
            )
        self._size += size

    def give_back(self) -> None:
        self._budget.give_back(self._size)


class _Sized:
    """A body whose length was announced: it goes into its buffer past h11."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._came = 0

    @property
    def so_far(self) -> str:
        return f"{self._came} of {self._length} bytes"

    async def read(self, stream: Stream, reading: Reading) -> Buffer:
        stream.put_back(reading.rest)
        buffer = memoryview(bytearray(self._length))
        try:
            self._came = await stream.fill(buffer)
        except asyncio.CancelledError:
            self._came = stream.filled
            raise
        if self._came < self._length:
            raise RefusedError(HTTPStatus.BAD_REQUEST, f"a body cut short after {self.so_far}")
        return buffer


class _Chunked:
    """A body that comes in chunks, of a length that nobody knows."""

    def __init__(self, admit: Callable[[int], None], held: _Held) -> None:
        self._admit = admit
        self._held = held
        self._body = bytearray()

    @property
    def so_far(self) -> str:
        return f"{len(self._body)} bytes"

    async def read(self, stream: Stream, reading: Reading) -> Buffer:
        more: bytes | None = None
        while (chunk := self._next(reading, more)) != b"":
            more = None
            if chunk is None:
                more = await stream.some()
                continue
            self._admit(len(self._body) + len(chunk))
            self._held.take(len(chunk))
            self._body += chunk
        stream.put_back(reading.rest)
        return self._body

    def _next(self, reading: Reading, more: bytes | None) -> bytes | None:
        try:
            return reading.chunk(more)
        except RefusedError as refused:
            if more == b"":
                cut = f"a body cut short after {self.so_far}"
                raise RefusedError(HTTPStatus.BAD_REQUEST, cut) from refused
            raise

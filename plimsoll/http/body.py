"""Reads request bodies into one buffer each, within a memory budget for all of them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from http import HTTPStatus

from plimsoll.http.buffers import LARGE, BodyBuffers, use_large_pages
from plimsoll.http.chunks import Chunks
from plimsoll.http.limits import Budget, Limits
from plimsoll.http.parser import CONTINUE, Framing
from plimsoll.http.transport import Transport
from plimsoll.http.types import Buffer, RejectedRequestError
from plimsoll.pace import Pace, sliced
from plimsoll.ratelimit import TokenBucket
from plimsoll.steps import Steps

_RETRY = (("retry-after", "1"),)
_FIRST, _LARGEST = 256 << 10, 1 << 20
"""Bytes of a body with Content-Length are reserved ahead in steps: as many as were received, within these bounds."""
_RATED = 64 << 10
"""Bytes of a body that are received before its rate is limited, and at a time after that."""
_DISCARDED_READS = 1_000
"""Reads per second of data that is dropped, over all connections: 16 MB/s."""
_PACE = Pace(rest=0)
"""Of adding chunks."""


class BodyReader:
    """Reads the request bodies of one server."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._budget = Budget(limits.bodies_bytes)
        self._discarding = TokenBucket(_DISCARDED_READS, burst=1)
        rate = limits.bodies_rate
        self._receiving = TokenBucket(rate / _RATED, burst=1) if rate else None
        self._buffers = BodyBuffers(limits.bodies_bytes // 4)

    async def discard(self, stream: Transport) -> None:
        """Read and drop data until the peer has closed its half. The rate is shared by all connections."""
        now = asyncio.get_running_loop().time
        while await stream.some():
            wait = self._discarding.take(now())
            await asyncio.sleep(wait)

    @contextlib.asynccontextmanager
    async def read(self, stream: Transport, framing: Framing) -> AsyncIterator[Buffer]:
        """Yield a whole body, which is reserved until the block ends. Raises RejectedRequestError."""
        held = _Reservation(self._budget)
        try:
            yield await self._received(stream, framing, held)
        finally:
            held.give_back()

    async def _received(self, stream: Transport, framing: Framing, held: "_Reservation") -> Buffer:
        if framing.length == 0:
            return b""
        if not self._limits.body_bytes:
            raise RejectedRequestError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "no request has a body on this port"
            )
        if framing.length is not None:
            self._admit(framing.length)
            held.expect(framing.length)
        if framing.asks_first:
            await stream.send([CONTINUE])
        rate = self._receiving
        body = (
            _Chunked(self._admit, held, rate)
            if framing.length is None
            else _Sized(self._buffers.allocate(framing.length), held, rate)
        )
        try:
            async with asyncio.timeout(self._limits.body):
                return await body.read(stream)
        except TimeoutError as error:
            raise RejectedRequestError(
                HTTPStatus.REQUEST_TIMEOUT,
                f"a body that did not come in {self._limits.body:g} s: {body.so_far}",
            ) from error

    def _admit(self, size: int) -> None:
        if size > self._limits.body_bytes:
            raise RejectedRequestError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"a body of {size} bytes or more, and {self._limits.body_bytes} are allowed",
            )


class _Reservation:
    """Memory reserved by one request: for received bytes, not announced ones, so that announcing costs a client something."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._size = 0

    def expect(self, size: int) -> None:
        """Raise RejectedRequestError if the budget lacks this many bytes now."""
        if size > self._budget.left:
            raise self._full()

    def take(self, size: int) -> None:
        if not self._budget.take(size):
            raise self._full()
        self._size += size

    def give_back(self) -> None:
        self._budget.give_back(self._size)

    def _full(self) -> RejectedRequestError:
        others = self._budget.size - self._budget.left - self._size
        return RejectedRequestError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            f"{others} bytes of other requests are being answered: try again",
            headers=_RETRY,
        )


class _Sized:
    """A body of known length, received directly into its buffer."""

    def __init__(self, buffer: memoryview, held: _Reservation, rate: TokenBucket | None) -> None:
        self._buffer = buffer
        self._length = len(buffer)
        self._held = held
        self._rate = rate
        self._came = 0

    @property
    def so_far(self) -> str:
        return f"{self._came} of {self._length} bytes"

    async def read(self, stream: Transport) -> Buffer:
        while self._came < self._length:
            if self._rate and self._came:
                await _wait(self._rate)
            part = self._buffer[self._came : self._came + self._step()]
            try:
                filled = await stream.fill(part)
            except asyncio.CancelledError:
                self._came += stream.filled
                raise
            if self._came < LARGE <= self._came + filled:
                use_large_pages(self._buffer)
            self._came += filled
            self._held.take(filled)
            if filled < len(part):
                cut = f"a body cut short after {self.so_far}"
                raise RejectedRequestError(HTTPStatus.BAD_REQUEST, cut)
        return self._buffer

    def _step(self) -> int:
        return _RATED if self._rate else min(max(_FIRST, self._came), _LARGEST)


class _Chunked:
    """A chunked body of unknown length."""

    def __init__(
        self, admit: Callable[[int], None], held: _Reservation, rate: TokenBucket | None
    ) -> None:
        self._admit = admit
        self._held = held
        self._rate = rate
        self._body = bytearray()

    @property
    def so_far(self) -> str:
        return f"{len(self._body)} bytes"

    async def read(self, stream: Transport) -> Buffer:
        chunks = Chunks()
        rated = 0
        while chunks.rest is None:
            if self._rate and len(self._body) - rated >= _RATED:
                rated += _RATED
                await _wait(self._rate)
            if not (data := await stream.some()):
                cut = f"a body cut short after {self.so_far}"
                raise RejectedRequestError(HTTPStatus.BAD_REQUEST, cut)
            await sliced(self._adding(chunks.parts(data)), _PACE)
        stream.put_back(chunks.rest)
        return self._body

    def _adding(self, parts: Iterable[Buffer]) -> Steps[None]:
        for part in parts:
            self._admit(len(self._body) + len(part))
            self._held.take(len(part))
            self._body += part
            yield


async def _wait(rate: TokenBucket) -> None:
    await asyncio.sleep(rate.take(asyncio.get_running_loop().time()))

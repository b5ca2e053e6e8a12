"""One HTTP/1.1 connection: requests in sequence, within limits on time and memory."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from http import HTTPStatus

from plimsoll import logs
from plimsoll.http.body import BodyReader
from plimsoll.http.limits import UNLIMITED, ConnectionRate, Limits
from plimsoll.http.parser import Framing, RequestParser, written
from plimsoll.http.pool import ConnectionState
from plimsoll.http.transport import Transport
from plimsoll.http.types import (
    Buffer,
    Check,
    Handler,
    Parts,
    Peer,
    Refuse,
    RejectedRequestError,
    Request,
    Response,
    always_right,
)
from plimsoll.process import garbage

log = logs.get(__name__)

_ONE_WRITE = 256 << 10
"""Maximum bytes of a body's first part that are sent together with the header."""


class Connection:
    """Serves the requests of one connection.

    `peer`: its client. `check`: called with a request's header before its body is read; raises RejectedRequestError.
    `rejected`: why no request of this client is answered; empty if they are. `rate`: of requests after the first.
    `set_state`: called with each new state.
    `ending`: returns whether no further request is wanted.
    """

    def __init__(
        self,
        stream: Transport,
        handler: Handler,
        refuse: Refuse,
        limits: Limits,
        bodies: BodyReader,
        *,
        peer: Peer | None = None,
        check: Check = always_right,
        rejected: str = "",
        rate: ConnectionRate = UNLIMITED,
        set_state: Callable[[ConnectionState], None] = lambda _doing: None,
        ending: Callable[[], bool] = lambda: False,
    ) -> None:
        self._stream = stream
        self._handler = handler
        self._refuse = refuse
        self._limits = limits
        self._bodies = bodies
        self._peer = peer
        self._check = check
        self._rejected = rejected
        self._rate = rate
        self._set_state = set_state
        self._ending = ending

    async def serve(self) -> None:
        """Serve requests until either side closes the connection."""
        patience = self._limits.header
        while (first := await self._wait(patience)) and await self._exchange(first):
            garbage.OF_THIS_PROCESS.ended()
            patience = self._limits.idle
            self._set_state(ConnectionState.IDLE)
            if wait := self._rate.wait(asyncio.get_running_loop().time()):
                await asyncio.sleep(wait)

    async def _wait(self, patience: float) -> bytes:
        """Return the first bytes of the next request; empty if none has arrived in time."""
        self._set_state(ConnectionState.IDLE)
        await asyncio.sleep(
            0
        )  # otherwise a client with many pipelined requests would block the event loop
        try:
            async with asyncio.timeout(patience):
                return await self._stream.some()
        except TimeoutError:
            return self._stream.received()  # in time, if this process was too busy to read it

    async def _exchange(self, first: bytes) -> bool:
        """Serve one request. Returns whether another may follow."""
        self._set_state(ConnectionState.RECEIVING)
        request = None
        try:
            received = await self._head(first)
            if received is None:
                return False
            request, framing = received
            self._admit(request, framing)
            async with self._bodies.read(self._stream, framing) as body:
                self._set_state(ConnectionState.ANSWERING)
                request = replace(request, body=body)
                response = await self._answer(request)
                close = self._ending() or not framing.keep_alive
                await self._send(request, response, close=close)
                return not close
        except RejectedRequestError as refused:
            log.debug("request refused", status=int(refused.status), reason=str(refused))
            await self._send(request, self._refuse(refused, request), close=True)
            await self._part()
            return False

    def _admit(self, request: Request, framing: Framing) -> None:
        """Raise RejectedRequestError if the header alone makes the request invalid; the body is not read then."""
        if self._rejected:
            raise RejectedRequestError(HTTPStatus.FORBIDDEN, self._rejected)
        if framing.length != 0:
            self._check(request)

    async def _head(self, first: bytes) -> tuple[Request, Framing] | None:
        """Return a request's header; None if the client has disconnected."""
        reading = RequestParser(
            self._limits.header_bytes, header_fields=self._limits.header_fields, peer=self._peer
        )
        try:
            async with asyncio.timeout(self._limits.header):
                received = reading.head(first)
                while received is None:
                    data = await self._stream.some()
                    received = reading.head(data)
                    if not data:
                        return None
                self._stream.put_back(reading.rest)
                return received
        except TimeoutError as error:
            raise RejectedRequestError(
                HTTPStatus.REQUEST_TIMEOUT,
                f"a header that did not come in {self._limits.header:g} s",
            ) from error

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._handler(request)
        except Exception:
            log.exception("request failed", method=request.method, path=request.path)
            defect = RejectedRequestError(
                HTTPStatus.INTERNAL_SERVER_ERROR, "internal error: see the log"
            )
            return self._refuse(defect, request)

    async def _send(self, request: Request | None, response: Response, *, close: bool) -> None:
        begin = written(response, close=close)
        if request is not None and request.method == "HEAD":
            parts: Iterable[Buffer] = ()
        else:
            parts = response.body.parts if isinstance(response.body, Parts) else (response.body,)
        self._set_state(ConnectionState.SENDING)
        async with asyncio.timeout(self._limits.send):
            await self._stream.send(_with_first(begin, parts))

    async def _part(self) -> None:
        """Read on after a rejection, so that a client that is still sending can read the reply: closing at once could discard it."""
        self._set_state(ConnectionState.IDLE)
        self._stream.end_our_half()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.linger):
                await self._bodies.discard(self._stream)


def _with_first(begin: bytes, parts: Iterable[Buffer]) -> Iterator[Buffer]:
    """Yield parts with `begin` in front, joined with the first part if that is small."""
    for part in parts:
        if begin and len(part) > _ONE_WRITE:
            yield begin
        elif begin:
            part = begin + part  # noqa: PLW2901 (what goes out in its place)
        begin = b""
        yield part
    yield begin

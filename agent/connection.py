"""HTTP/1.1 on one connection, by h11: one request after the other, and no more patience or memory than the limits allow."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

import h11

from plimsoll import logs

log = logs.get(__name__)

_CHUNK = 16 << 10
_SLICE = 64 << 10


@dataclass(frozen=True, slots=True)
class Request:
    """What a handler needs to know of a request. Header names are in lower case."""

    method: str
    path: str
    query: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Response:
    """What a handler answers. For HEAD the server leaves the body out."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()

    def with_headers(self, headers: Mapping[str, str]) -> "Response":
        """The same, with these headers as well."""
        return replace(self, headers=(*self.headers, *headers.items())) if headers else self


Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may take, in seconds, bytes and connections."""

    idle: float = 120.0
    """Between two requests on one connection. Prometheus scrapes every minute by default."""
    receive: float = 10.0
    """From the first byte of a request to its last, and for a TLS handshake."""
    send: float = 30.0
    """For a reply to be taken."""
    header_bytes: int = 16 << 10
    """Without having come to an end."""
    body_bytes: int = 64 << 10
    """A scrape has no body; one that has is read and thrown away."""
    farewell: float = 2.0
    """For a client's half of the end of TLS."""
    connections: int = 128
    """At once. With TLS each holds 256 KiB."""


class _RefusedError(Exception):
    """A request that is answered without asking the handler; the connection ends with it."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Connection:
    """One connection, from its first request to its last."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        handler: Handler,
        limits: Limits,
        *,
        on_wait: Callable[[bool], None] = lambda _waiting: None,
    ) -> None:
        """`on_wait` hears True when the client has all the time, False once it has asked for something."""
        self._reader = reader
        self._writer = writer
        self._handler = handler
        self._limits = limits
        self._on_wait = on_wait
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.header_bytes)
        self._wants_body = True
        # drain() then waits until the kernel has taken all of a reply, not all but the last 64 KiB.
        writer.transport.set_write_buffer_limits(high=0)

    async def serve(self) -> None:
        """Answer one request after the other until either side ends the connection."""
        while await self._wait_for_request():
            try:
                request = await self._receive()
            except _RefusedError as refused:
                await self._refuse(refused.status, str(refused))
                return
            if request is None:
                return
            self._on_wait(False)
            await self._send(await self._answer(request), close=False)
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _wait_for_request(self) -> bool:
        """True once there is something of a next request."""
        if self._http.trailing_data[0]:
            return True
        self._on_wait(True)
        async with asyncio.timeout(self._limits.idle):
            data = await self._reader.read(_CHUNK)
        self._http.receive_data(data)
        return bool(data)

    async def _receive(self) -> Request | None:
        """The next request, its body read and forgotten. None if the client went away."""
        try:
            async with asyncio.timeout(self._limits.receive):
                head = await self._event()
                if not isinstance(head, h11.Request):
                    return None
                if not head.http_version.startswith(b"1."):
                    raise _RefusedError(
                        HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "HTTP/1.1 is spoken here"
                    )
                self._wants_body = head.method != b"HEAD"
                await self._discard_body()
        except TimeoutError as error:
            raise _RefusedError(HTTPStatus.REQUEST_TIMEOUT, "the request did not come") from error
        except h11.RemoteProtocolError as error:
            raise _RefusedError(HTTPStatus(error.error_status_hint), str(error)) from error
        return _request(head)

    async def _discard_body(self) -> None:
        if self._http.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[])
            self._writer.write(self._http.send(go_on) or b"")
        size = 0
        while isinstance(part := await self._event(), h11.Data):
            size += len(part.data)
            if size > self._limits.body_bytes:
                reason = f"a body of more than {self._limits.body_bytes} bytes"
                raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)

    async def _event(self) -> h11.Event:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(_CHUNK))
        assert isinstance(event, h11.Event)
        return event

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._handler(request)
        except Exception:
            log.exception("request failed", method=request.method, path=request.path)
            return Response(HTTPStatus.INTERNAL_SERVER_ERROR, b"internal error\n")

    async def _refuse(self, status: HTTPStatus, reason: str) -> None:
        log.debug("request refused", status=int(status), reason=reason)
        if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            await self._send(Response(status, f"{reason}\n".encode()), close=True)

    async def _send(self, response: Response, *, close: bool) -> None:
        headers = [
            ("date", formatdate(usegmt=True)),
            ("content-type", response.content_type),
            ("content-length", str(len(response.body))),
            *response.headers,
            *([("connection", "close")] if close else []),
        ]
        phrase = response.status.phrase
        events: list[h11.Event] = [
            h11.Response(status_code=response.status, headers=headers, reason=phrase)
        ]
        if self._wants_body:
            events.append(h11.Data(data=response.body))
        events.append(h11.EndOfMessage())
        reply = memoryview(b"".join(self._http.send(event) or b"" for event in events))
        async with asyncio.timeout(self._limits.send):
            # In slices, because under TLS drain() waits only before what is too much already, not after it.
            for begin in range(0, len(reply), _SLICE):
                self._writer.write(reply[begin : begin + _SLICE])
                await self._writer.drain()


def _request(head: h11.Request) -> Request:
    target = urlsplit(head.target.decode("ascii"))
    return Request(
        head.method.decode("ascii"),
        target.path,
        parse_qs(target.query, keep_blank_values=True),
        {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers},
    )

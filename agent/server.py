"""A small HTTP/1.1 server on asyncio and h11: no client, however slow, silent or wrong, delays another."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

import h11

from agent.addresses import Address
from plimsoll import logs

log = logs.get(__name__)

_CHUNK = 16 << 10


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


Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may take, in seconds, bytes and connections."""

    idle: float = 120.0
    """Between two requests on one connection. Prometheus scrapes every minute by default."""
    receive: float = 10.0
    """From the first byte of a request to its last."""
    send: float = 30.0
    """For a reply to be taken."""
    header_bytes: int = 16 << 10
    """Without having come to an end."""
    body_bytes: int = 64 << 10
    """A scrape has no body; one that has is read and thrown away."""
    connections: int = 512


class ListenError(Exception):
    """An address that cannot be listened on; the text is for the operator."""


class _RefusedError(Exception):
    """A request that is answered without asking the handler; the connection ends with it."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Server:
    """Listens on some addresses and asks one handler for every answer."""

    def __init__(self, handler: Handler, *, limits: Limits | None = None) -> None:
        self._handler = handler
        self._limits = limits or Limits()
        self._servers: list[asyncio.Server] = []
        self._clients: set[asyncio.Task[None]] = set()

    async def listen(self, addresses: Sequence[Address]) -> list[Address]:
        """Begin to serve on all addresses, or on none. Returns the real ones: a port 0 has become one."""
        with contextlib.ExitStack() as undo:
            sockets = []
            for address in addresses:
                sockets.append(_bind(address))
                undo.callback(sockets[-1].close)
            bound = [_bound(a, s) for a, s in zip(addresses, sockets, strict=True)]
            for listener in sockets:
                server = await asyncio.start_server(self._connected, sock=listener)
                self._servers.append(server)
            undo.pop_all()
        return bound

    async def close(self) -> None:
        """Stop listening and end every connection."""
        for server in self._servers:
            server.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            if len(self._clients) <= self._limits.connections:
                await _Client(reader, writer, self._handler, self._limits).serve()
        except (OSError, TimeoutError) as error:
            log.debug("connection lost", reason=str(error) or type(error).__name__)
        except asyncio.CancelledError:
            log.debug("connection ended, the agent stops")
        finally:
            self._clients.discard(task)
            if writer.transport.get_write_buffer_size():
                writer.transport.abort()  # close() would wait for a client to take what it never will
            else:
                writer.close()


class _Client:
    """One connection, from its first byte to its end."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        handler: Handler,
        limits: Limits,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._handler = handler
        self._limits = limits
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
            await self._send(await self._answer(request), close=False)
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _wait_for_request(self) -> bool:
        """True once there is something of a next request."""
        if self._http.trailing_data[0]:
            return True
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
        self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
        async with asyncio.timeout(self._limits.send):
            await self._writer.drain()


def _request(head: h11.Request) -> Request:
    target = urlsplit(head.target.decode("ascii"))
    return Request(
        head.method.decode("ascii"),
        target.path,
        parse_qs(target.query, keep_blank_values=True),
        {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers},
    )


def _bind(address: Address) -> socket.socket:
    try:
        if not address.host:
            return _bind_everywhere(address.port)
        family, _, _, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(where, family=family)
    except OSError as error:
        raise ListenError(f"cannot listen on {address}: {error.strerror or error}") from error


def _bind_everywhere(port: int) -> socket.socket:
    """One socket for IPv4 and IPv6, so that a port 0 is one port; IPv4 alone where the kernel has no IPv6."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                raise
    return socket.create_server(("0.0.0.0", port))  # noqa: S104 (asked for: no host in the flag)


def _bound(address: Address, listener: socket.socket) -> Address:
    return Address(address.host, listener.getsockname()[1])

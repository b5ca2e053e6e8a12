"""The header of one request and of its reply, read and written by h11: RFC 9112, and nothing that two readers could read in two ways."""

from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

import h11

from plimsoll.http.messages import RefusedError, Request, Response

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Framing:
    """How a request's body is told from what follows it, and what its client asks of the connection.

    `length` is None for a body in chunks. `asks_first`: it waits for leave before it sends the body.
    """

    length: int | None
    asks_first: bool
    keep_alive: bool


class Reading:
    """One request, fed with what comes. Every error is a RefusedError; nothing after it can be understood."""

    def __init__(self, header_bytes: int) -> None:
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=header_bytes)
        self._header_bytes = header_bytes
        self._begun = False

    def head(self, data: bytes) -> tuple[Request, Framing] | None:
        """The header, once it has come whole; no data is the end of the connection."""
        if data and not self._begun:
            data = data.lstrip(b"\r\n")  # RFC 9112 2.2: empty lines before a request are no harm
            self._begun = bool(data)
            if not data:
                return None
        event = self._next(data)
        if not isinstance(event, h11.Request):
            return None
        return _request(event), self._framing(event)

    def chunk(self, data: bytes | None) -> bytes | None:
        """The next part of a body in chunks, nothing at its end; None if more has to come first."""
        event = self._next(data)
        if isinstance(event, h11.Data):
            return bytes(event.data)
        return b"" if isinstance(event, h11.EndOfMessage) else None

    @property
    def rest(self) -> bytes:
        """What came after what was understood."""
        return self._http.trailing_data[0]

    def _next(self, data: bytes | None) -> object:
        try:
            if data is not None:
                self._http.receive_data(data)
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            status = HTTPStatus(error.error_status_hint)
            too_large = status is HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            reason = (
                f"a header of more than {self._header_bytes} bytes"
                if too_large
                else f"no HTTP: {str(error)[:150]}"
            )
            raise RefusedError(status, reason) from error

    def _framing(self, event: h11.Request) -> Framing:
        headers = dict(event.headers)
        if not event.http_version.startswith(b"1."):
            raise RefusedError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "HTTP/1.1 is spoken here")
        chunked, length = b"transfer-encoding" in headers, headers.get(b"content-length")
        if chunked and (length is not None or event.http_version == b"1.0"):
            # RFC 9112 6.1: whoever sends that may be trying to hide a request in a body.
            raise RefusedError(
                HTTPStatus.BAD_REQUEST, "Transfer-Encoding beside Content-Length or HTTP/1.0"
            )
        expected = headers.get(b"expect", b"").lower()
        if expected not in (b"", b"100-continue"):
            raise RefusedError(
                HTTPStatus.EXPECTATION_FAILED, "no other expectation than 100-continue"
            )
        closes = b"close" in headers.get(b"connection", b"").lower()
        return Framing(
            None if chunked else int(length or 0),
            self._http.they_are_waiting_for_100_continue,
            event.http_version != b"1.0" and not closes,
        )


def _request(event: h11.Request) -> Request:
    headers: dict[str, str] = {}
    for raw, value in event.headers:
        name, text = raw.decode("ascii"), value.decode("latin-1")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    try:
        target = urlsplit(event.target.decode("ascii"))
        query = parse_qs(target.query, keep_blank_values=True)
    except ValueError as error:
        raise RefusedError(HTTPStatus.BAD_REQUEST, f"a request for no path: {error}") from error
    return Request(event.method.decode("ascii"), target.path, query, headers)


def written(response: Response, *, close: bool) -> bytes:
    """The header of a reply."""
    headers = [
        ("date", formatdate(usegmt=True)),
        ("content-type", response.content_type),
        ("content-length", str(response.size)),
        *response.headers,
        *([("connection", "close")] if close else []),
    ]
    status = response.status
    event = h11.Response(status_code=status, headers=headers, reason=status.phrase)
    return h11.Connection(h11.SERVER).send(event) or b""

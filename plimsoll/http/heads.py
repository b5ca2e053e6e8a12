"""The header of one request and of its reply, read and written by h11: RFC 9112, and nothing that two readers could read in two ways."""

import re
import traceback
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import parse_qs

import h11

from plimsoll.http.messages import RefusedError, Request, Response

# A line that ends in LF alone, or that goes on in the next: RFC 9112 2.2 and 5.2 leave both to the reader, so two may differ.
_TWO_READINGS = re.compile(rb"(?<!\r)\n|\n[ \t]")
# RFC 9110 7.2: uri-host [":" port]
_HOST = re.compile(r"(?:[-\w.~!$&'()*+,;=%]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?", re.ASCII)
_ABSOLUTE = re.compile(r"https?://[^/?#]*", re.IGNORECASE)

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
        self._fed = bytearray()

    def head(self, data: bytes) -> tuple[Request, Framing] | None:
        """The header, once it has come whole; no data is the end of the connection."""
        if data and not self._fed:
            data = data.lstrip(b"\r\n")  # RFC 9112 2.2: empty lines before a request are no harm
            if not data:
                return None
        self._fed += data
        event = self._next(data)
        if not isinstance(event, h11.Request):
            return None
        self._look_closely(bytes(self._fed[: len(self._fed) - len(self.rest)]))
        request = _request(event)
        return request, self._framing(event, request)

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
            # A frame of h11 refers to its error, and so would keep the whole connection from being freed.
            traceback.clear_frames(error.__traceback__)
            status = HTTPStatus(error.error_status_hint)
            if status is HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
                raise self._too_large() from error
            # What follows the colon is what came.
            raise RefusedError(status, f"not HTTP/1.1: {str(error).partition(':')[0]}") from error

    def _too_large(self) -> RefusedError:
        reason = f"a header of more than {self._header_bytes} bytes"
        return RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, reason)

    def _look_closely(self, raw: bytes) -> None:
        if len(raw) > self._header_bytes:
            raise self._too_large()
        if _TWO_READINGS.search(raw):
            raise RefusedError(HTTPStatus.BAD_REQUEST, "not HTTP/1.1: a line without its end")

    def _framing(self, event: h11.Request, request: Request) -> Framing:
        headers = request.headers
        if not event.http_version.startswith(b"1."):
            raise RefusedError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "HTTP/1.1 is spoken here")
        if not _HOST.fullmatch(headers.get("host", "")):
            raise RefusedError(HTTPStatus.BAD_REQUEST, "a Host that is none")
        chunked, length = "transfer-encoding" in headers, headers.get("content-length")
        if chunked and (length is not None or event.http_version == b"1.0"):
            # RFC 9112 6.1: whoever sends that may be trying to hide a request in a body.
            raise RefusedError(
                HTTPStatus.BAD_REQUEST, "Transfer-Encoding beside Content-Length or HTTP/1.0"
            )
        if headers.get("expect", "").lower() not in ("", "100-continue"):
            raise RefusedError(
                HTTPStatus.EXPECTATION_FAILED, "no other expectation than 100-continue"
            )
        options = {option.strip() for option in headers.get("connection", "").lower().split(",")}
        return Framing(
            None if chunked else int(length or 0),
            self._http.they_are_waiting_for_100_continue,
            event.http_version != b"1.0" and "close" not in options,
        )


def _request(event: h11.Request) -> Request:
    headers: dict[str, str] = {}
    for raw, value in event.headers:
        name, text = raw.decode("ascii"), value.decode("latin-1")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    path, _, query = _origin(event.target.decode("ascii")).partition("?")
    try:
        parameters = parse_qs(query, keep_blank_values=True)
    except ValueError as error:  # more of them than parse_qs takes
        raise RefusedError(HTTPStatus.BAD_REQUEST, "a query that is none") from error
    return Request(event.method.decode("ascii"), path, parameters, headers)


def _origin(target: str) -> str:
    """Path and query of a target, RFC 9112 3.2; as it is where it is neither a path nor a URL."""
    absolute = _ABSOLUTE.match(target)
    return target[absolute.end() :] or "/" if absolute else target


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

"""Parses request headers and writes reply headers (RFC 9112). Ambiguous requests are rejected."""

import re
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import parse_qs

from plimsoll.http.fields import MOST_FIELDS, FieldLines
from plimsoll.http.types import Peer, RejectedRequestError, Request, Response

MOST_PARAMETERS = 100
MOST_QUERY_BYTES = 4 << 10
"""A scrape that names every collector in `collect[]` takes half of it."""

# llhttp knows few methods and accepts two spaces for one, so it parses field lines only.
_REQUEST_LINE = re.compile(rb"([-!#$%&'*+.^_`|~0-9A-Za-z]+) ([!-~]+) HTTP/([0-9])\.([0-9])\r\n")
_LONGEST_LENGTH = 20
"""Maximum digits of a Content-Length."""
# RFC 9110 7.2: uri-host [":" port]
_HOST = re.compile(r"(?:[-\w.~!$&'()*+,;=%]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?", re.ASCII)
_ABSOLUTE = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_WRITABLE = re.compile(r"[-\w]+: [\t -~]*", re.ASCII)

_WITHOUT_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
"""RFC 9110 8.6: a length would be that of the reply to an unconditional request."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Framing:
    """How a request's body is delimited, and what the client expects of the connection.

    `length`: None for a chunked body. `asks_first`: the client waits for 100 Continue before it sends the body.
    """

    length: int | None
    asks_first: bool
    keep_alive: bool


@dataclass(frozen=True, slots=True)
class _Line:
    """A request line."""

    method: str
    target: str
    minor: int
    """HTTP/1.`minor`."""


class RequestParser:
    """Parses one request's header incrementally. Errors are RejectedRequestError; the connection cannot be used afterwards."""

    def __init__(
        self, header_bytes: int, *, header_fields: int = MOST_FIELDS, peer: Peer | None = None
    ) -> None:
        self._header_bytes = header_bytes
        self._peer = peer or Peer()
        self._size = 0
        self._begin = bytearray()  # received part of the request line
        self._line: _Line | None = None
        self._fields = FieldLines(header_fields)
        self.rest = b""
        """Bytes received after the header."""

    def head(self, data: bytes) -> tuple[Request, Framing] | None:
        """Parse data. Returns the header once it is complete. Raises RejectedRequestError."""
        if not self._size:
            data = data.lstrip(b"\r\n")  # RFC 9112 2.2: empty lines before a request are allowed
        self._size += len(data)
        if self._line is None:
            self._begin += data
            line_end = self._begin.find(b"\n") + 1
            self._line = self._request_line(line_end)
            data = bytes(self._begin[line_end:])
        end = self._fields.feed(data) if self._line else None
        self.rest = data[end:] if end is not None else b""
        if self._size - len(self.rest) > self._header_bytes:
            raise RejectedRequestError(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"a header of more than {self._header_bytes} bytes",
            )
        if self._line is None or end is None:
            return None
        headers = self._fields.values
        request = _request(self._line, headers, self._fields.repeated, self._peer)
        return request, _framing(self._line, headers)

    def _request_line(self, end: int) -> _Line | None:
        if not end:
            if self._begin and not 0x20 < self._begin[0] < 0x7F:  # such as a TLS handshake
                raise _malformed("a request line")
            return None
        match = _REQUEST_LINE.fullmatch(self._begin, 0, end)
        if match is None:
            raise _malformed("a request line")
        method, target, major, minor = (part.decode("ascii") for part in match.groups())
        if major != "1":
            raise RejectedRequestError(
                HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "HTTP/1.1 is spoken here"
            )
        return _Line(method, target, int(minor))


def _malformed(what: str) -> RejectedRequestError:
    return RejectedRequestError(HTTPStatus.BAD_REQUEST, f"not HTTP/1.1: {what} that is none")


def _framing(line: _Line, headers: dict[str, str]) -> Framing:
    if not _HOST.fullmatch(headers.get("host", "/" if line.minor else "")):
        raise RejectedRequestError(HTTPStatus.BAD_REQUEST, "a Host that is none")
    expectation = headers.get("expect", "").lower()
    if expectation not in ("", "100-continue"):
        raise RejectedRequestError(
            HTTPStatus.EXPECTATION_FAILED, "no other expectation than 100-continue"
        )
    options = {option.strip() for option in headers.get("connection", "").lower().split(",")}
    return Framing(
        _length(line, headers),
        bool(expectation and line.minor),
        line.minor > 0 and "close" not in options,
    )


def _length(line: _Line, headers: dict[str, str]) -> int | None:
    """Return the length of the body; None for a chunked one."""
    coding, length = headers.get("transfer-encoding"), headers.get("content-length", "0")
    if coding is not None:
        if "content-length" in headers or not line.minor:
            # RFC 9112 6.1: possible request smuggling.
            raise RejectedRequestError(
                HTTPStatus.BAD_REQUEST, "Transfer-Encoding beside Content-Length or HTTP/1.0"
            )
        if coding.lower() != "chunked":
            raise RejectedRequestError(
                HTTPStatus.NOT_IMPLEMENTED, "no other Transfer-Encoding than chunked"
            )
        return None
    if not length.isdecimal() or len(length) > _LONGEST_LENGTH:
        raise RejectedRequestError(HTTPStatus.BAD_REQUEST, "a Content-Length that is none")
    return int(length)


def _request(
    line: _Line, headers: dict[str, str], repeated: dict[str, list[str]], peer: Peer
) -> Request:
    path, _, query = _origin(line.target).partition("?")
    if len(query) > MOST_QUERY_BYTES:
        raise RejectedRequestError(
            HTTPStatus.REQUEST_URI_TOO_LONG, f"a query of more than {MOST_QUERY_BYTES} bytes"
        )
    try:
        parameters = parse_qs(query, keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError as error:
        raise RejectedRequestError(
            HTTPStatus.BAD_REQUEST, f"a query of more than {MOST_PARAMETERS} parameters"
        ) from error
    return Request(line.method, path, parameters, headers, repeated=repeated, peer=peer)


def _origin(target: str) -> str:
    """Return path and query of a request target (RFC 9112 3.2); other targets are returned unchanged."""
    absolute = _ABSOLUTE.match(target)
    return target[absolute.end() :] or "/" if absolute else target


def written(response: Response, *, close: bool) -> bytes:
    """Return the header of a reply. Raises ValueError for an invalid header."""
    lines = [
        f"date: {formatdate(usegmt=True)}",
        f"content-type: {response.content_type}",
        *([] if response.status in _WITHOUT_BODY else [f"content-length: {response.size}"]),
        *(f"{name}: {value}" for name, value in response.headers),
        *(["connection: close"] if close else []),
    ]
    for line in lines:
        if not _WRITABLE.fullmatch(line):
            raise ValueError(f"Illegal header value: {line!r}")
    status = response.status
    return "\r\n".join([f"HTTP/1.1 {status.value} {status.phrase}", *lines, "", ""]).encode("ascii")

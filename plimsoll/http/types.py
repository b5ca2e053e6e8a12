"""Requests and responses of handlers."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from plimsoll.http.tls import Certificate

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Peer:
    """The client of a connection.

    `address`: its IP address; empty if unknown. `certificate`: the one that TLS verified; None without one.
    """

    address: str = ""
    certificate: Certificate | None = None


_UNKNOWN = Peer()


@dataclass(frozen=True, slots=True)
class Request:
    """A request as passed to a handler.

    The path is without the query and not decoded. Header names are in lower case; repeated headers are joined by commas, and
    their values listed in `repeated`. The body's buffer belongs to the server again after the request is answered.
    """

    method: str
    path: str
    query: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]
    body: Buffer = b""
    repeated: Mapping[str, Sequence[str]] = field(default_factory=dict)
    peer: Peer = _UNKNOWN

    def values(self, name: str) -> Sequence[str]:
        """Return the values of a header, one for each time it was sent: a value may itself contain commas."""
        if (values := self.repeated.get(name)) is not None:
            return values
        return (self.headers[name],) if name in self.headers else ()


_LONGEST_PREFERENCE = 1 << 10


def preference(headers: Mapping[str, str], name: str) -> str:
    """Return the value of `accept` or `accept-encoding`; empty if it is longer than 1 KiB, which would take milliseconds to parse.

    Prometheus sends some 300 bytes.
    """
    value = headers.get(name, "")
    return value if len(value) <= _LONGEST_PREFERENCE else ""


@dataclass(frozen=True, slots=True)
class Parts:
    """A body in parts that are made while it is sent, so that a large one is never held twice. `size`: exact bytes."""

    size: int
    parts: Iterable[Buffer]


@dataclass(frozen=True, slots=True)
class Response:
    """A handler's reply. For HEAD the server omits the body."""

    status: HTTPStatus
    body: Buffer | Parts
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return self.body.size if isinstance(self.body, Parts) else len(self.body)

    def with_headers(self, headers: Mapping[str, str]) -> "Response":
        """Return the response with additional headers, which replace its own of the same name."""
        if not headers:
            return self
        names = {name.lower() for name in headers}
        own = (header for header in self.headers if header[0].lower() not in names)
        return replace(self, headers=(*own, *headers.items()))


Handler = Callable[[Request], Awaitable[Response]]


class RejectedRequestError(Exception):
    """A request is rejected without calling the handler, and the connection is closed. The text is for the client."""

    def __init__(
        self, status: HTTPStatus, reason: str, *, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers


Check = Callable[[Request], None]
"""Raises RejectedRequestError for a request that can be rejected without its body. The request has no body yet."""


def always_right(_request: Request) -> None:
    """Accept every request."""


Refuse = Callable[[RejectedRequestError, Request | None], Response]
"""Makes the response to a rejected request, which has no body; None if its header was incomplete."""


def plain_rejection(refused: RejectedRequestError, _request: Request | None) -> Response:
    """Return the error as a line of text."""
    return Response(refused.status, f"{refused}\n".encode(), headers=refused.headers)

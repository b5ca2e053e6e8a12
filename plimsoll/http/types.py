"""What a handler is asked, and what it answers."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Request:
    """What a handler needs to know of a request.

    The path is without the query, and as it came: nothing is decoded. Header names are in lower case, values of one name
    have commas between them. The body's buffer is the server's again once the request is answered.
    """

    method: str
    path: str
    query: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]
    body: Buffer = b""


_LONGEST_PREFERENCE = 1 << 10


def preference(headers: Mapping[str, str], name: str) -> str:
    """The value of `accept` or `accept-encoding`; empty for one of more than 1 KiB, which takes milliseconds to read.

    Prometheus sends some 300 bytes.
    """
    found = headers.get(name, "")
    return found if len(found) <= _LONGEST_PREFERENCE else ""


@dataclass(frozen=True, slots=True)
class Parts:
    """A body in parts that are made while it is sent, so that a large one is never held twice. `size` in bytes, exactly."""

    size: int
    parts: Iterable[Buffer]


@dataclass(frozen=True, slots=True)
class Response:
    """What a handler answers. For HEAD the server leaves the body out."""

    status: HTTPStatus
    body: Buffer | Parts
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return self.body.size if isinstance(self.body, Parts) else len(self.body)

    def with_headers(self, headers: Mapping[str, str]) -> "Response":
        """The same, with these headers as well."""
        return replace(self, headers=(*self.headers, *headers.items())) if headers else self


Handler = Callable[[Request], Awaitable[Response]]


class RejectedRequestError(Exception):
    """A request that is answered without asking the handler; the connection ends with it. The text is for the client."""

    def __init__(
        self, status: HTTPStatus, reason: str, *, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers


Check = Callable[[Request], None]
"""Raises RefusedError for a request whose body need not be read to refuse it. The request has no body yet."""


def always_right(_request: Request) -> None:
    """A Check that refuses nothing."""


Refuse = Callable[[RejectedRequestError, Request | None], Response]
"""How a server words a refusal; the request has no body, and there is none where its header did not come whole."""


def plain_rejection(refused: RejectedRequestError, _request: Request | None) -> Response:
    """A line of text."""
    return Response(refused.status, f"{refused}\n".encode(), headers=refused.headers)

"""Calls of agents: what the agents' port needs of gRPC, in whichever process gRPC runs.

Imports nothing of the evaluator: the process that gRPC runs in loads it, too.
"""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import NamedTuple, NoReturn, Protocol


class Code(StrEnum):
    """Status codes of gRPC with which calls are rejected."""

    ALREADY_EXISTS = "ALREADY_EXISTS"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    UNAVAILABLE = "UNAVAILABLE"


class CallEndedError(Exception):
    """A message cannot be sent, because the call or its connection has ended."""


class Caller(NamedTuple):
    """What gRPC knows of a client."""

    peer: str
    """In gRPC's format, such as `ipv4:10.0.0.1:4711`."""
    names: tuple[str, ...] = ()
    """Common name and DNS names of its certificate."""
    resumed: bool = False
    """Whether its connection resumed a TLS session."""
    token: str = ""
    """Of `authorization: Bearer` in the metadata; empty if there is none."""


class Call(Protocol):
    """A call: a stream of messages in both directions."""

    @property
    def caller(self) -> Caller:
        """The client."""
        ...

    async def read(self) -> bytes | None:
        """Return the next message; None after the last one."""
        ...

    async def write(self, message: bytes) -> None:
        """Send a message. Raises CallEndedError."""
        ...

    async def abort(self, code: Code, sentence: str) -> NoReturn:
        """End the call with a status. Raises asyncio.CancelledError, always: gRPC ends the call on it."""
        ...


Serve = Callable[[Call], Awaitable[None]]
"""Serves a call until it ends; cancelled if the client ends it."""


class Pem(NamedTuple):
    """The certificate of the port, its key, and the CA of client certificates (empty: clients need none)."""

    cert: bytes
    key: bytes
    ca: bytes = b""


class ServerOptions(NamedTuple):
    """Channel options of a gRPC server, and how many calls it serves at a time."""

    channel: tuple[tuple[str, int], ...]
    calls: int


class CallPort(Protocol):
    """A port that serves calls."""

    async def open(self, serve: Serve, options: ServerOptions) -> int:
        """Listen and return the port. Raises OSError if the address cannot be bound."""
        ...

    async def close(self) -> None:
        """End all calls and stop listening."""
        ...

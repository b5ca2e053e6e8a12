"""Limits of a server, per client and in total."""

from dataclasses import dataclass

from plimsoll.http.fields import MOST_FIELDS


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRate:
    """Requests a second on kept connections; further ones are read later. A connection's first request is not counted."""

    connection: float
    address: float
    """Of all connections of one client address."""
    burst: int
    """Requests of a connection, and of an address, that are answered at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Times in seconds, sizes in bytes."""

    handshake: float = 5.0
    """Timeout of a TLS handshake."""
    header: float = 5.0
    """From the first byte of a request to the end of its header; also from accepting a connection to its first byte."""
    body: float = 30.0
    """Timeout of a request's whole body."""
    idle: float = 120.0
    """Between two requests of a connection. Go's clients keep idle ones for 90 s, and do not retry a POST on a closed one."""
    send: float = 30.0
    """Timeout of sending a reply."""
    linger: float = 2.0
    """Time for a client to close its half: of TLS, and after a body that was rejected while it was sent."""
    header_bytes: int = 16 << 10
    header_fields: int = MOST_FIELDS
    body_bytes: int = 128 << 20
    bodies_bytes: int = 256 << 20
    """Of all requests, while they are received and answered."""
    bodies_rate: int | None = None
    """Bytes a second of all bodies, each body's first 64 KiB not counted. None: no limit."""
    requests: RequestRate | None = None
    """None: no limit."""
    connections: int = 256
    """Maximum connections. With TLS each takes 256 KiB."""
    sending: int = 64
    """Maximum replies that clients have not taken yet. One more ends the oldest of them."""


class Budget:
    """Bytes that may be reserved at a time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.left = size

    def take(self, size: int) -> bool:
        """Reserve bytes. Returns whether there were enough."""
        if size > self.left:
            return False
        self.left -= size
        return True

    def give_back(self, size: int) -> None:
        """Release bytes."""
        self.left += size

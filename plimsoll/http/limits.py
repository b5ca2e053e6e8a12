"""Limits of a server, per client and in total."""

from collections import OrderedDict
from dataclasses import dataclass

from plimsoll.http.fields import MOST_FIELDS
from plimsoll.ratelimit import TokenBucket

_REMEMBERED = 1_000
"""Addresses with a bucket; bounded, as clients of IPv6 have many."""


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
    """Timeout of a TLS handshake's first byte, and from there of the handshake: at its start, this process may be late."""
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


class RequestRates:
    """Request rates of one server's connections. Times in seconds of the event loop's clock.

    Clients of one address share a bucket, so that more connections do not give more answers.
    """

    def __init__(self, rate: RequestRate | None) -> None:
        self._rate = rate
        self._addresses: OrderedDict[str, TokenBucket] = OrderedDict()

    def connection(self, address: str) -> "ConnectionRate":
        """Return the rate of a new connection."""
        if self._rate is None:
            return UNLIMITED
        if (shared := self._addresses.get(address)) is None:
            shared = TokenBucket(self._rate.address, burst=self._rate.burst)
            self._addresses[address] = shared
            if len(self._addresses) > _REMEMBERED:
                self._addresses.popitem(last=False)
        self._addresses.move_to_end(address)
        return ConnectionRate(TokenBucket(self._rate.connection, burst=self._rate.burst), shared)


class ConnectionRate:
    """Requests of one connection after its first."""

    def __init__(self, *buckets: TokenBucket) -> None:
        self._buckets = buckets

    def wait(self, now: float) -> float:
        """Count another request. Returns the seconds to wait before it is read."""
        return max((bucket.take(now) for bucket in self._buckets), default=0.0)


UNLIMITED = ConnectionRate()

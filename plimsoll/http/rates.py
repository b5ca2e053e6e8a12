"""Bounds how many requests a second a port answers, per connection and per address of its client."""

from collections import OrderedDict

from plimsoll.http.limits import RequestRate
from plimsoll.ratelimit import TokenBucket

_REMEMBERED = 1_000
"""Addresses with a bucket; bounded, as clients of IPv6 have many."""


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

"""Bounds of connections whose client is not admitted yet, by address. Imports nothing of the evaluator.

gRPC buffers a header list until it is complete, before a token is checked: a byte of it may take 70 bytes of memory and 2 µs
(a field of HPACK's table). An agent sends 4 KB until it is admitted, with a chain of RSA certificates 10 KB.
"""

import ipaddress
from collections.abc import Iterator
from typing import NamedTuple

_RESERVED = 16 << 10
"""Bytes that a connection may send once it is read, whatever others of its address send."""
_HANDSHAKE = 4 << 10
"""Bytes for which a connection counts at least after its end: a handshake takes a millisecond."""
_IMPATIENCE = 5.0
"""Seconds for which a connection may be silent while others of its address wait."""


class Bounds(NamedTuple):
    """Of connections whose client is not admitted; sizes in bytes."""

    connections: int = 10_000
    """All connections, also those of admitted clients. An address may have half of them."""
    connection: int = 128 << 10
    """What a connection may send."""
    address: int = 2 << 20
    """What the connections of one address may send: 128 are read at a time."""
    rate: int = 256 << 10
    """What an address may send in a second for connections that end without an admitted client."""
    silence: float = 30.0
    """Seconds without a byte."""


class _Address:
    """Connections of one address. The dicts are in the order of their entries."""

    __slots__ = ("free_at", "held", "received", "silent_since", "waiting")

    def __init__(self) -> None:
        self.silent_since: dict[int, float] = {}
        """When each connection sent its last byte, or began; without those that wait."""
        self.waiting: dict[int, None] = {}
        """Connections with bytes that may not be read yet."""
        self.received: dict[int, int] = {}
        """Bytes of each connection that is read."""
        self.held = 0
        """The sum of these, or of what is reserved."""
        self.free_at = 0.0
        """When the bytes of connections that have ended count no more."""


class Unadmitted:
    """Connections, by number, until their client is admitted. Times are seconds of any one clock."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._addresses: dict[str, _Address] = {}
        self._address_of: dict[int, _Address] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._address_of

    def enter(self, number: int, host: str, now: float) -> int | None:
        """Take a new connection. Returns one to close if its address has too many: that which is silent longest, or this one."""
        address = self._addresses.setdefault(network(host), _Address())
        self._address_of[number] = address
        connections = len(address.silent_since) + len(address.waiting)
        full = connections >= max(1, self._bounds.connections // 2)
        closed = next(iter(address.silent_since), number) if full else None
        address.silent_since[number] = now
        return closed

    def start(self, number: int, now: float) -> bool:
        """Return whether a connection may be read; after False, `startable` returns it when it may."""
        address = self._address_of[number]
        if number in address.received:
            return True
        if address.waiting or self._room(address, now) < _RESERVED:
            address.silent_since.pop(number, None)
            address.waiting[number] = None
            return False
        self._reserve(address, number, now)
        return True

    def startable(self, now: float) -> Iterator[int]:
        """Yield the connections that waited and may be read now."""
        for address in [one for one in self._addresses.values() if one.waiting]:
            while address.waiting and self._room(address, now) >= _RESERVED:
                number = next(iter(address.waiting))
                del address.waiting[number]
                self._reserve(address, number, now)
                yield number

    def receive(self, number: int, size: int, now: float) -> bool:
        """Count bytes of a connection that is read. Returns whether it is within its bounds."""
        address = self._address_of[number]
        received = address.received[number] + size
        more = _counted(received) - _counted(address.received[number])
        fits = received <= self._bounds.connection and (
            not more or more <= self._room(address, now)
        )
        address.received[number] = received
        address.held += more
        del address.silent_since[number]
        address.silent_since[number] = now
        return fits

    def admit(self, number: int) -> None:
        """Forget a connection with an admitted client."""
        self._remove(number)

    def end(self, number: int, now: float) -> None:
        """Forget a connection that has ended; what it sent counts on for a while."""
        address, received = self._remove(number)
        if received is not None:
            size = max(_HANDSHAKE, received)
            address.free_at = max(address.free_at, now) + size / self._bounds.rate

    def silent(self, now: float) -> Iterator[int]:
        """Yield connections that were silent too long; forget addresses without connections."""
        for key, address in tuple(self._addresses.items()):
            if not address.silent_since and not address.waiting and address.free_at <= now:
                del self._addresses[key]
            for number, since in tuple(address.silent_since.items()):
                if now - since < _IMPATIENCE:
                    break
                hinders = address.waiting and number in address.received
                if hinders or now - since >= self._bounds.silence:
                    yield number

    def _room(self, address: _Address, now: float) -> float:
        """Return how many bytes more an address may send."""
        ended = max(0.0, address.free_at - now) * self._bounds.rate
        return self._bounds.address - address.held - ended

    def _reserve(self, address: _Address, number: int, now: float) -> None:
        address.received[number] = 0
        address.held += _RESERVED
        address.silent_since[number] = now

    def _remove(self, number: int) -> tuple[_Address, int | None]:
        address = self._address_of.pop(number)
        address.silent_since.pop(number, None)
        address.waiting.pop(number, None)
        received = address.received.pop(number, None)
        if received is not None:
            address.held -= _counted(received)
        return address, received


def _counted(received: int) -> int:
    """Return for how many bytes a connection counts while it is read."""
    return max(_RESERVED, received)


def network(host: str) -> str:
    """Return what counts as one address: an IPv4 address, or 64 bits of an IPv6 address."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if address.version == 4:
        return host
    return str(ipaddress.IPv6Address(int(address) >> 64 << 64))

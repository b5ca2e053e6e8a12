"""Limits on reviews: one call for identical questions, a bounded cache, and a rate of failures for each peer and for all.

Only a failed review is charged, so a fleet of valid agents that returns at once is not slowed. A peer whose last review
succeeded is not held up by failures of others.
"""

import asyncio
import contextlib
import ipaddress
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from plimsoll.ratelimit import TokenBucket

_MOST_PEERS = 20_000
"""Peers with limits in memory; the least recent is dropped first."""
_IPV6_NETWORK = 64
"""Bits of an IPv6 address: one machine may use all addresses of such a network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewLimits:
    """Limits of failed reviews: rate per second, burst, and the maximum seconds to wait for admission."""

    peer_rate: float = 0.2
    peer_burst: int = 10
    rate: float = 20.0
    burst: int = 100
    timeout: float = 10.0


class LimitedError(Exception):
    """A token is not reviewed now, because too many were invalid; the message is for both ends."""


@dataclass(slots=True)
class Review:
    """One review. Set `valid` after the API server's response; without one, nothing is charged."""

    valid: bool | None = None


@dataclass(slots=True)
class _Peer:
    failures: TokenBucket
    in_flight: int = 0
    proven: bool = False
    """Whether its last review succeeded."""
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)

    def release(self) -> None:
        self.in_flight -= 1
        self.wake_next()

    def wake_next(self) -> None:
        while self.waiting:
            first = self.waiting.popleft()
            if not first.done():
                first.set_result(None)
                return


class ReviewGate:
    """Admits reviews, each as a context around the request to the API server."""

    def __init__(self, limits: ReviewLimits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._failures = TokenBucket(limits.rate, limits.burst)
        self._peers: OrderedDict[str, _Peer] = OrderedDict()
        self._unproven = 0
        """Reviews in flight of peers that are not proven."""
        self._released = asyncio.Event()
        self._turn = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def review(self, peer: str) -> AsyncIterator[Review]:
        """Wait until a token of this peer may be reviewed. Raises LimitedError."""
        found, review = self._peer(peer), Review()
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(self._limits.timeout):
                    await self._wait_for_peer(found)
                    stack.callback(found.release)
                    if not found.proven:
                        await self._wait_for_all()
                        stack.callback(self._release)
                stack.callback(self._charge, found, review)
                yield review
        except TimeoutError:
            raise LimitedError("too many token reviews are pending: try again later") from None

    def _charge(self, peer: _Peer, review: Review) -> None:
        if review.valid is not None:
            peer.proven = review.valid
        if review.valid is False:
            peer.failures.take(self._clock())
            self._failures.take(self._clock())

    def _release(self) -> None:
        self._unproven -= 1
        self._released.set()

    async def _wait_for_peer(self, peer: _Peer) -> None:
        """Wait until a peer's reviews in flight could all fail within its limit."""
        while peer.in_flight >= (allowed := peer.failures.left(self._clock())):
            if not allowed:
                peer.wake_next()
                raise LimitedError(
                    "too many tokens from this address were invalid: try again later"
                )
            first = asyncio.get_running_loop().create_future()
            peer.waiting.append(first)
            try:
                await first
            except BaseException:
                peer.wake_next()
                raise
        peer.in_flight += 1

    async def _wait_for_all(self) -> None:
        """Wait for the limit of all peers that are not proven, in order of arrival."""
        async with self._turn:
            while self._unproven >= self._failures.left(self._clock()):
                self._released.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._failures.due(self._clock()) or None):
                        await self._released.wait()
            self._unproven += 1

    def _peer(self, peer: str) -> _Peer:
        key = network(peer)
        found = self._peers.get(key)
        if found is None:
            found = _Peer(TokenBucket(self._limits.peer_rate, self._limits.peer_burst))
            self._peers[key] = found
        self._peers.move_to_end(key)
        if len(self._peers) > _MOST_PEERS:
            self._peers.popitem(last=False)
        return found


def network(host: str) -> str:
    """Return the network that one peer controls: an IPv4 address, or the /64 of an IPv6 address.

    Any text that is no IP address is a peer of its own.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _IPV6_NETWORK), strict=False))


T = TypeVar("T")


class SharedCalls(Generic[T]):
    """Runs at most one call per key; callers that come meanwhile share its result."""

    def __init__(self) -> None:
        self._tasks: dict[bytes, asyncio.Task[T]] = {}

    async def run(self, key: bytes, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the call for this key. It goes on if this caller is cancelled. Raises what it raises."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(call())
            task.add_done_callback(lambda done: self._done(key, done))
        return await asyncio.shield(task)

    def _done(self, key: bytes, task: asyncio.Task[T]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # seen, even if all callers were cancelled


class BoundedCache(Generic[T]):
    """Results by key; beyond `most`, the oldest is dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._results: OrderedDict[bytes, T] = OrderedDict()

    def get(self, key: bytes) -> T | None:
        """Return a result; None if there is none."""
        return self._results.get(key)

    def put(self, key: bytes, result: T) -> None:
        """Store a result as the newest."""
        self._results[key] = result
        self._results.move_to_end(key)
        if len(self._results) > self._most:
            self._results.popitem(last=False)

    def drop(self, key: bytes) -> None:
        """Remove a result if there is one."""
        self._results.pop(key, None)

    def __len__(self) -> int:
        return len(self._results)

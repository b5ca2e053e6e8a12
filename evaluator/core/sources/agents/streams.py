"""Registry of open streams by node, with limits on their number and rate."""

from collections import OrderedDict
from typing import Generic, TypeVar

from evaluator.core.sources.agents.limits import AgentLimits
from plimsoll.ratelimit import TokenBucket

T = TypeVar("T")

_REMEMBERED = 20_000
"""Nodes with a rate limiter; bounded, so that a flood of invented names does not fill memory."""


class TooManyError(Exception):
    """A node has too many streams, or starts them too often; the message is for both ends."""


class StreamRegistry(Generic[T]):
    """Streams by node. The newest is current: an agent may reconnect before its lost stream times out here.

    Two agents with one node name replace each other, at most at the rate that `pause` allows.
    """

    def __init__(self, limits: AgentLimits) -> None:
        self._limits = limits
        self._current: dict[str, T] = {}
        self._open: dict[str, int] = {}
        self._beginnings: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        """The number of nodes with a stream."""
        return len(self._current)

    @property
    def current(self) -> tuple[T, ...]:
        """The current streams."""
        return tuple(self._current.values())

    def enter(self, node: str, stream: T, now: float) -> T | None:
        """Add a stream; return the one it replaces, or None. Raises TooManyError."""
        if self._open.get(node, 0) >= self._limits.streams_per_node:
            raise TooManyError(
                f"node {node} already has {self._limits.streams_per_node} open streams"
            )
        if not self._bucket(node).take_now(now):
            raise TooManyError(f"streams of node {node} are opened too often")
        self._open[node] = self._open.get(node, 0) + 1
        before, self._current[node] = self._current.get(node), stream
        return before

    def leave(self, node: str, stream: T) -> bool:
        """Remove a stream; returns whether it was the current one of its node."""
        self._open[node] -= 1
        if not self._open[node]:
            del self._open[node]
        current = self._current.get(node) is stream
        if current:
            del self._current[node]
        return current

    def _bucket(self, node: str) -> TokenBucket:
        bucket = self._beginnings.get(node)
        if bucket is None:
            bucket = TokenBucket(1 / self._limits.pause, self._limits.beginnings)
            self._beginnings[node] = bucket
        self._beginnings.move_to_end(node)
        if len(self._beginnings) > _REMEMBERED:
            self._beginnings.popitem(last=False)
        return bucket

"""The metrics requested from sources: those that policies use, in a list with a generation for agents, and extra ones."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Subscription:
    """A list of metric names; `generation` starts at 1 and is unique per list."""

    generation: int
    metrics: tuple[str, ...]


class Subscriptions:
    """Holds the current subscription, and lets callers wait for the next."""

    def __init__(self) -> None:
        self.current = Subscription(1, ())
        self._changed = asyncio.Event()

    def want(self, metrics: Iterable[str]) -> bool:
        """Subscribe to exactly these metrics; returns whether that is a change."""
        requested = tuple(sorted(set(metrics)))
        if requested == self.current.metrics:
            return False
        self.current = Subscription(self.current.generation + 1, requested)
        self._changed.set()
        self._changed = asyncio.Event()
        return True

    async def after(self, generation: int) -> Subscription:
        """Return the current subscription once its generation differs from the given one."""
        while self.current.generation == generation:
            await self._changed.wait()
        return self.current


class ExtraMetrics(Protocol):
    """Names of metrics, exact or by patterns that agents match."""

    @property
    def patterns(self) -> Sequence[str]:
        """Patterns with `*`, for agents to match."""
        ...

    @property
    def wanted(self) -> frozenset[str]:
        """The metrics to request now."""
        ...

    def found(self, names: Iterable[str]) -> bool:
        """Add names of an agent that match the patterns; return whether one is new."""
        ...

    def update(self, of_policies: Iterable[frozenset[str]], left_out: Collection[str]) -> None:
        """Take over the metrics of policies after a decision; those that are `left_out` have no readings."""
        ...


class _NoExtraMetrics:
    patterns: Sequence[str] = ()
    wanted = frozenset[str]()

    def found(self, names: Iterable[str]) -> bool:
        return False

    def update(self, of_policies: Iterable[frozenset[str]], left_out: Collection[str]) -> None:
        pass


NO_EXTRA_METRICS: ExtraMetrics = _NoExtraMetrics()
"""Only the metrics of policies."""

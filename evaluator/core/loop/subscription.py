"""The metrics that agents report: those that policies use, with a generation that increments on change."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass


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

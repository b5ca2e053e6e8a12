"""What agents are asked for: the metrics that policies name, as a list whose generation goes up when it changes."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Subscription:
    """A list of metric names; `generation` starts at 1 and never names two lists."""

    generation: int
    metrics: tuple[str, ...]


class Subscriptions:
    """The current subscription, and a way to wait for the next."""

    def __init__(self) -> None:
        self.current = Subscription(1, ())
        self._changed = asyncio.Event()

    def want(self, metrics: Iterable[str]) -> bool:
        """Ask for just these metrics; whether that differs from before."""
        wanted = tuple(sorted(set(metrics)))
        if wanted == self.current.metrics:
            return False
        self.current = Subscription(self.current.generation + 1, wanted)
        self._changed.set()
        self._changed = asyncio.Event()
        return True

    async def after(self, generation: int) -> Subscription:
        """The current subscription, as soon as it is another than the one of this generation."""
        while self.current.generation == generation:
            await self._changed.wait()
        return self.current

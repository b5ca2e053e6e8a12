"""What rules record, as the rest of the agent sees it: an agent without rules loads nothing of them."""

from collections.abc import Collection, Hashable, Sequence
from typing import Protocol

from collectors.base.sample import Family


class RuleResults(Protocol):
    """The recorder (`agent.rules.engine`). Any thread may call it."""

    def accounts(self) -> Sequence[Family]:
        """What the rules say about themselves."""
        ...

    def beside(self, collected: Sequence[Family]) -> Sequence[Family]:
        """What is recorded, but for metrics that are collected: those count, whole."""
        ...

    def unread(self) -> Collection[str]:
        """Recorded metrics without a result, of which nothing is known."""
        ...

    def subscribe(self, who: Hashable, metrics: Collection[str]) -> None:
        """Somebody wants these metrics, in place of those before."""
        ...

    def forget(self, who: Hashable) -> None:
        """Somebody wants nothing any longer."""
        ...

    def sent(self, who: Hashable) -> None:
        """Somebody is told now what there is."""
        ...

    def following(self, who: Hashable) -> Hashable:
        """Changes when a metric that somebody wants changed notably since it was `sent`."""
        ...

    async def load(self) -> None:
        """Read the rules for the first time, off the event loop."""
        ...

    async def run(self) -> None:
        """Evaluate until cancelled."""
        ...

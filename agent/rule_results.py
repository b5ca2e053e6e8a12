"""The interface of the rule engine, so that an agent without rules imports none of it."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Protocol

from collectors.interface.sample import Family
from wire.failing_rules import FailingRule


class RuleResults(Protocol):
    """Results of recording rules (`agent.rules.engine`). Any thread may call its methods."""

    def accounts(self) -> Sequence[Family]:
        """Return metrics about the rules themselves."""
        ...

    def document(self, limit: int) -> Mapping[str, object]:
        """Return files with errors, failing rules, and all groups with their rules and results, as JSON values.

        `limit`: rules at most; `rulesMore` counts the others.
        """
        ...

    def not_collected(self, collected: Sequence[Family]) -> Sequence[Family]:
        """Return the recorded families, without metrics that are also collected: collected ones take precedence."""
        ...

    def unread(self) -> Collection[str]:
        """Return recorded metrics without a result, whose value is unknown."""
        ...

    def lacks_input(self, series: Sequence[str]) -> bool | None:
        """Return whether the rules that record one of these series read one that the node has never had.

        False also if they had results; None if no rule records them.
        """
        ...

    def failing(self) -> Mapping[FailingRule, float]:
        """Return the rules, groups and rule files that fail, with the seconds since when each does."""
        ...

    def subscribe(
        self, subscriber: Hashable, metrics: Collection[str], on_change: Callable[[], None]
    ) -> None:
        """Subscribe to these metrics, replacing the subscriber's earlier ones.

        `on_change` is called, in any thread, when one of them has changed notably since `sent`.
        """
        ...

    def forget(self, subscriber: Hashable) -> None:
        """Remove a subscriber."""
        ...

    def sent(self, subscriber: Hashable) -> None:
        """Record that the current results were sent to a subscriber."""
        ...

    def hurry(self) -> None:
        """A file or log that is watched has changed: evaluate the rules behind subscriptions now, not only when they are due.

        All of them: what a log says may show in other sources, such as an error count of a file system.
        """
        ...

    async def load(self) -> None:
        """Read the rules for the first time, in a thread."""
        ...

    async def run(self) -> None:
        """Evaluate rules until cancelled."""
        ...

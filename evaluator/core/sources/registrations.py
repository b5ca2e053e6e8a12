"""Drops readings of deleted and replaced nodes: a node that is registered again starts without readings."""

from collections.abc import Sequence

from evaluator.core.readings.polled import PolledReadings
from evaluator.core.readings.store import Store


class Registrations:
    """Drops readings of nodes that are deleted or replaced. The first report of a replacement is pending.

    A node with a new name is not pending: it may have no agent, and the extender would answer 503 for `stale_after`
    whenever a node joins.
    """

    def __init__(self, agents: Store | None, polled: Sequence[PolledReadings]) -> None:
        self._agents = agents
        self._polled = polled
        self._deleted: dict[str, float] = {}
        """Recently deleted nodes that had readings, and when."""

    def changed(self, node: str, *, registered: bool, now: float) -> None:
        """Handle the registration, replacement or deletion of a node; `now` in seconds of the store's clock."""
        for polled in self._polled:
            polled.forget(node)
        if self._agents is None:
            return
        known = self._agents.knows(node)
        self._agents.forget(node)
        self._drop_old(now - self._agents.stale_after)
        if not registered:
            if known:
                self._deleted[node] = now
        elif self._deleted.pop(node, None) is not None or known:
            self._agents.expect(node, now)

    def _drop_old(self, before: float) -> None:
        """Dicts keep the order of insertion: the oldest come first."""
        for node, at in [*self._deleted.items()]:
            if at >= before:
                return
            del self._deleted[node]

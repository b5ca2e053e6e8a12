"""Readings by a node's registration, not by its name alone: a node that is deleted and registered anew begins with none."""

from collections.abc import Sequence

from evaluator.readings.polled import PolledReadings
from evaluator.readings.store import Store


class Registrations:
    """Drops readings of nodes that are deleted or replaced. The first report of a replacement is awaited.

    A node of a new name is not: it may have no agent, and kube-scheduler would be told to come again for `stale_after`
    whenever a node joins.
    """

    def __init__(self, agents: Store | None, polls: Sequence[PolledReadings]) -> None:
        self._agents = agents
        self._polls = polls
        self._deleted: dict[str, float] = {}
        """Nodes with readings that were deleted lately, and when."""

    def changed(self, node: str, *, registered: bool, now: float) -> None:
        """A node was registered, maybe in place of another of its name, or deleted. Time in seconds, the store's clock."""
        for polls in self._polls:
            polls.forget(node)
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

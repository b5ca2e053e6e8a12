"""The problems of nodes as their agents report them, and which of them persons acknowledged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from wire.problems import ProblemCondition, ProblemEvent, Problems


@dataclass(slots=True)
class ProblemListeners:
    """Callbacks for changes; called on the event loop's thread, so they must return at once."""

    conditions: list[Callable[[str], None]] = field(default_factory=list)
    """The conditions that an agent reports of its node changed."""
    events: list[Callable[[str, ProblemEvent], None]] = field(default_factory=list)
    """An agent reported an event of its node."""
    acknowledged: list[Callable[[str], None]] = field(default_factory=list)
    """The acknowledgements of a node changed."""


class NodeProblems:
    """The permanent problems of each node by its agent's last report.

    They stay when a stream ends: a node without a connected agent is no healthier, and no less.
    """

    def __init__(self) -> None:
        self.listeners = ProblemListeners()
        self._conditions: dict[str, tuple[ProblemCondition, ...]] = {}
        self._acknowledged: dict[str, Mapping[str, float]] = {}

    def report(self, node: str, found: Problems) -> None:
        """Take a report of a node."""
        if self._conditions.get(node) != found.conditions:
            self._conditions[node] = found.conditions
            for changed in self.listeners.conditions:
                changed(node)
        for event in found.events:
            for occurred in self.listeners.events:
                occurred(node, event)

    def of(self, node: str) -> tuple[ProblemCondition, ...] | None:
        """Return the conditions of a node; None if its agent has not reported to this replica."""
        return self._conditions.get(node)

    def forget(self, node: str) -> None:
        """Drop what is known of a node that was deleted."""
        self._conditions.pop(node, None)
        self._acknowledged.pop(node, None)

    def acknowledge(self, node: str, times: Mapping[str, float]) -> None:
        """Set the times (Unix seconds) at which persons acknowledged problems of a node, by condition type."""
        if self.acknowledged(node) == times:
            return
        self._acknowledged[node] = times
        for changed in self.listeners.acknowledged:
            changed(node)

    def acknowledged(self, node: str) -> Mapping[str, float]:
        """Return the acknowledgements of a node, by condition type."""
        return self._acknowledged.get(node, {})

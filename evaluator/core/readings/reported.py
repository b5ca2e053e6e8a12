"""What agents report beside readings: their causes, such as the device; problems of nodes; and recording rules that fail."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from evaluator.core.readings.column import NEVER, is_fresh
from evaluator.core.readings.merged import OF_AGENTS
from wire.failing_rules import FailingRule, FailingRules
from wire.problems import ProblemCondition, Problems

_MOST = 1_000
"""Different failures stored: the texts of thousands of agents may all differ."""


class FailureOnNodes(NamedTuple):
    """A rule that fails in the same way on some nodes; `since`: by node, when that began (seconds)."""

    rule: FailingRule
    since: dict[str, float]


class _OfNode(NamedTuple):
    failures: tuple[FailureOnNodes, ...]
    more: int


class FailingRuleIndex:
    """Failing rules by node. Those of a node without a fresh report are not shown.

    `reported_at` returns the time of a node's last report; reports older than `stale_after` seconds are stale. Times in
    seconds of one clock.
    """

    def __init__(
        self,
        reported_at: Callable[[str], float] = lambda _node: NEVER,
        *,
        stale_after: float = 0.0,
        most: int = _MOST,
    ) -> None:
        self._reported_at = reported_at
        self._stale_after = stale_after
        self._most = most
        self._failures: dict[FailingRule, FailureOnNodes] = {}
        self._nodes: dict[str, _OfNode] = {}

    def report(self, node: str, found: FailingRules, now: float) -> None:
        """Replace the failing rules of a node by those of a report; beyond the limit of different ones they are counted."""
        self._drop(node)
        if not found.seconds and not found.more:
            return
        kept = []
        for rule, seconds in found.seconds.items():
            failure = self._failures.get(rule)
            if failure is None:
                if len(self._failures) >= self._most:
                    continue
                failure = self._failures[rule] = FailureOnNodes(rule, {})
            failure.since[node] = now - seconds
            kept.append(failure)
        self._nodes[node] = _OfNode(tuple(kept), found.more + len(found.seconds) - len(kept))

    def _drop(self, node: str) -> None:
        known = self._nodes.pop(node, None)
        for failure in known.failures if known is not None else ():
            del failure.since[node]
            if not failure.since:
                del self._failures[failure.rule]

    def age(self, node: str, now: float) -> float | None:
        """Return the seconds since a node's last report; None if it is stale, or there is none."""
        at = self._reported_at(node)
        return now - at if is_fresh(at, now, self._stale_after) else None

    def failing_rules(self, node: str, now: float) -> FailingRules:
        """Return the failing rules of a node."""
        known = self._nodes.get(node)
        if known is None or self.age(node, now) is None:
            return FailingRules()
        return FailingRules({f.rule: now - f.since[node] for f in known.failures}, known.more)

    def nodes(self) -> Mapping[str, int]:
        """Return the nodes with failing rules, also those without a fresh report, and how many failures of each are not stored."""
        return {node: known.more for node, known in self._nodes.items()}

    def failures(self) -> Iterator[FailureOnNodes]:
        """Yield the different failures, each with its nodes at that moment: reports may arrive between two of them."""
        for rule, since in tuple(self._failures.values()):
            yield FailureOnNodes(rule, since.copy())


CauseOf = Callable[[str, str, str], str]
"""Returns the cause of the reading of a metric on a node from a source; empty if none is known."""


def no_cause(_metric: str, _node: str, _source: str) -> str:
    """Return that no cause is known."""
    return ""


class NodeCauses:
    """The causes of the readings of each node by its agent's last report."""

    def __init__(self) -> None:
        self._by_node: dict[str, Mapping[str, str]] = {}

    def report(self, node: str, causes: Mapping[str, str]) -> None:
        """Replace the causes of a node; none when it is deleted."""
        if causes:
            self._by_node[node] = causes
        else:
            self._by_node.pop(node, None)

    def cause_of(self, metric: str, node: str, source: str) -> str:
        """Return the cause of a reading; empty if its agent does not report one, or it is of another source."""
        return self._by_node.get(node, {}).get(metric, "") if source in OF_AGENTS else ""


class NodeProblems:
    """The permanent problems of each node by its agent's last report.

    They stay when a stream ends: a node without a connected agent is no healthier, and no less.
    """

    def __init__(self) -> None:
        self._conditions: dict[str, tuple[ProblemCondition, ...]] = {}
        self._acknowledged: dict[str, Mapping[str, float]] = {}

    def report(self, node: str, found: Problems) -> bool:
        """Take a report of a node; return whether its conditions changed."""
        if self._conditions.get(node) == found.conditions:
            return False
        self._conditions[node] = found.conditions
        return True

    def conditions(self, node: str) -> tuple[ProblemCondition, ...] | None:
        """Return the conditions of a node; None if its agent has not reported to this replica."""
        return self._conditions.get(node)

    def nodes(self) -> Collection[str]:
        """Return the nodes whose agents have reported to this replica."""
        return self._conditions.keys()

    def forget(self, node: str) -> None:
        """Drop what is known of a node that was deleted."""
        self._conditions.pop(node, None)
        self._acknowledged.pop(node, None)

    def acknowledge(self, node: str, times: Mapping[str, float]) -> bool:
        """Set the times (Unix seconds) at which persons acknowledged problems of a node, by condition type.

        Return whether they changed.
        """
        if self.acknowledged(node) == times:
            return False
        self._acknowledged[node] = times
        return True

    def acknowledged(self, node: str) -> Mapping[str, float]:
        """Return the acknowledgements of a node, by condition type."""
        return self._acknowledged.get(node, {})

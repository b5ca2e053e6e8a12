"""Sums over time for one policy: nodes in violation at once, changes per node and hour, writes to nodes."""

from collections import deque
from collections.abc import Iterable

import numpy as np

from evaluator.core.model.node_index import Mask, NodeIndex, alike, union
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.label_sets import assignments_of
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy
from evaluator.core.readings.column import Counts, Floats, is_fresh
from evaluator.core.simulation import Period
from evaluator.tools.replay import grid
from evaluator.tools.replay.replay import Block, Step

_HOUR = 3600.0


class PolicyTotals:
    """The sums of one policy; call `step` with each evaluation, then `finish`."""

    def __init__(self, policy: Policy, nodes: NodeIndex, period: Period) -> None:
        self.policy = policy
        self._nodes = nodes
        self._period = period
        self._at = -np.inf
        self._violating: Mask = nodes.none
        self._refused: Mask = nodes.none
        self._decision: Decision | None = None
        self.changes: Counts = np.zeros(len(nodes), np.int32)
        """Times that each node began or ceased to violate the policy."""
        self.worst_hour: Counts = np.zeros(len(nodes), np.int32)
        """The most of these changes of each node within any hour."""
        self._last_hour: Counts = np.zeros(len(nodes), np.int32)
        self._recent: deque[tuple[float, Mask]] = deque()
        """The changes of the last hour (Unix seconds), which `_last_hour` counts."""
        self.at_once: Floats = np.zeros(len(nodes) + 1)
        """Seconds by the number of nodes in violation."""
        self.refused_seconds: Floats = np.zeros(len(nodes))
        """Seconds by node in which dontschedule kept pods away."""
        self.no_node_seconds = 0.0
        """Seconds in which dontschedule kept pods away from all nodes."""
        self.label_writes = 0

    def step(self, step: Step) -> None:
        """Advance to the decisions of a step."""
        self._until(step.at)
        decision = step.decisions.policies[self.policy.key]
        states = decision.states
        violating = union((state.found.violated for state in states.values()), self._nodes)
        inside = self._period.begin <= step.at <= self._period.end
        if not alike(violating, self._violating):
            if inside:
                self._count(step.at, violating ^ self._violating)
            self._violating = violating
        refusing = states.get(StrategyName.DONTSCHEDULE)
        self._refused = refusing.found.violated if refusing else self._nodes.none
        if inside and self._decision is not None:
            before = assignments_of(self._decision.labels)
            self.label_writes += len(assignments_of(decision.labels).changed_since(before))
        self._decision = decision

    def _count(self, at: float, changed: Mask) -> None:
        """Count changes of nodes, and those of the hour that ends now."""
        while self._recent and self._recent[0][0] <= at - _HOUR:
            self._last_hour -= self._recent.popleft()[1]
        self._recent.append((at, changed))
        self._last_hour += changed
        self.changes += changed
        np.maximum(self.worst_hour, self._last_hour, out=self.worst_hour)

    def finish(self) -> None:
        """Add the time up to the end of the range."""
        self._until(self._period.end)

    def _until(self, now: float) -> None:
        seconds = self._period.seconds(self._at, now)
        self._at = now
        if not seconds:
            return
        self.at_once[np.count_nonzero(self._violating)] += seconds
        if self._refused is not self._nodes.none:
            self.refused_seconds += self._refused * seconds
            self.no_node_seconds += seconds * bool(self._refused.all())

    @property
    def node_seconds(self) -> float:
        """Seconds in violation over all nodes."""
        return float(self.at_once @ np.arange(len(self.at_once)))

    @property
    def most_at_once(self) -> int:
        """The most nodes that were in violation at one time."""
        return int(self.at_once.nonzero()[0].max(initial=0))

    def at_once_quantile(self, share: float) -> int:
        """Return the number of nodes that was not exceeded for a share of the time."""
        total = self.at_once.sum()
        return int(np.searchsorted(self.at_once.cumsum(), share * total)) if total else 0


class Coverage:
    """Missing readings by metric; gaps of the source are counted apart."""

    def __init__(self, period: Period, stale_after: float, nodes: int) -> None:
        self._period = period
        self._stale_after = stale_after
        self._nodes = nodes
        self.missing_seconds: dict[str, float] = {}
        """Node-seconds without a usable reading outside gaps, by metric."""
        self.seconds = 0.0
        """Seconds of the range outside gaps."""
        self.gaps: list[tuple[float, float]] = []
        """Times without a fresh reading of any node (Unix seconds)."""

    def block(self, block: Block) -> None:
        """Add a block of moments."""
        moments = block.moments
        lengths = np.diff(moments.clip(self._period.begin, self._period.end))
        any_fresh = grid.fresh_nodes(block.rows, moments, self._stale_after)[:-1]
        self.seconds += float(lengths @ any_fresh)
        for begin, end in zip(
            moments[:-1][~any_fresh & (lengths > 0)].tolist(),
            moments[1:][~any_fresh & (lengths > 0)].tolist(),
            strict=True,
        ):
            self._add_gap(max(begin, self._period.begin), min(end, self._period.end))
        for metric, rows in block.rows.items():
            usable = (
                is_fresh(rows.at, moments[:, None], self._stale_after)
                & (rows.counts == 1)
                & ~np.isnan(rows.values)
            )
            lacking = self._nodes - np.count_nonzero(usable[:-1], axis=1)
            self.missing_seconds[metric] = self.missing_seconds.get(metric, 0.0) + float(
                lengths @ (lacking * any_fresh)
            )

    def _add_gap(self, begin: float, end: float) -> None:
        if self.gaps and self.gaps[-1][1] == begin:
            begin = self.gaps.pop()[0]
        self.gaps.append((begin, end))

    @property
    def gap_seconds(self) -> float:
        """The length of all gaps."""
        return sum(end - begin for begin, end in self.gaps)

    def missing_share(self, metrics: Iterable[str]) -> float:
        """Return the share of readings of these metrics that are missing, gaps of the source left out; NaN without data."""
        missing = [self.missing_seconds.get(metric, np.nan) for metric in metrics]
        total = self.seconds * self._nodes * len(missing)
        return sum(missing) / total if total else np.nan

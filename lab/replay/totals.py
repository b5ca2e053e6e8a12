"""What happens over time: when each rule was violated on each node, and for each policy nodes in violation, changes and writes."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from evaluator.core.model.arrays import Counts, Floats
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Mask, NodeIndex, Positions, alike, union
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.label_sets import assignments_of
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Operator, Policy, Rule, Strategy
from evaluator.core.readings.column import is_fresh
from evaluator.core.readings.tables import NEVER_HAD
from lab.interface import Period
from lab.replay.grid import fresh_nodes
from lab.replay.replay import Block, Step

_HOUR = 3600.0


class Interval(NamedTuple):
    """A time in violation (Unix seconds). `worst` is NaN if no reading was usable; `by_missing`: it began by a missing reading.

    `began_before`: it began before the range. `ongoing`: it had not ended at the end of the range.
    """

    node: int
    start: float
    end: float
    worst: float
    by_missing: bool = False
    began_before: bool = False
    ongoing: bool = False

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start


class Track:
    """One rule of a strategy, or all of its rules if they count only together (`allOf`)."""

    def __init__(
        self, policy: Policy, name: StrategyName, numbers: Sequence[int], nodes: NodeIndex
    ) -> None:
        self.policy: PolicyKey = policy.key
        self.strategy = name
        body = policy.strategies[name]
        self.rules: tuple[Rule, ...] = tuple(body.rules[number] for number in numbers)
        self.rule = " and ".join(map(str, self.rules))
        """The rule as text."""
        self._numbers = numbers
        self._all_of = body.all_of
        self._mask: Mask = nodes.none
        self._start = np.zeros(len(nodes))
        self._worst = np.full(len(nodes), np.nan)
        self._extreme = np.fmin if self.rules[0].operator is Operator.LESS_THAN else np.fmax
        self._peers = len(numbers) == 1 and self.rules[0].peers is not None
        self._missing: Mask = nodes.none
        self._block: Block | None = None
        self._row = 0
        self.intervals: list[Interval] = []

    def step(self, step: Step, period: Period) -> None:
        """Advance to the decisions of a step."""
        violated = step.decisions.policies[self.policy].states[self.strategy].found
        mask = violated.violated if self._all_of else violated.per_rule[:, self._numbers[0]]
        self._read_until(step.block, step.row)
        if alike(mask, self._mask):
            self._compare(step)
            return
        began, ended = mask & ~self._mask, self._mask & ~mask
        self._end(ended, step.at, period)
        self._start[began], self._worst[began] = step.at, np.nan
        self._missing = (self._missing & mask) | (
            began & violated.missing[:, [*self._numbers]].any(axis=1)
        )
        self._mask = mask.copy()
        self._compare(step)

    def finish(self, period: Period, block: Block | None) -> None:
        """End all intervals at the end of the range."""
        if block is not None:
            self._read_until(block, len(block.moments))
        self._end(self._mask, period.end, period, ongoing=True)

    def _end(self, ended: Mask, at: float, period: Period, *, ongoing: bool = False) -> None:
        for node in ended.nonzero()[0].tolist():
            start = float(self._start[node])
            if at > period.begin and start < period.end:
                self.intervals.append(
                    Interval(
                        node,
                        max(start, period.begin),
                        min(at, period.end),
                        float(self._worst[node]),
                        by_missing=bool(self._missing[node]),
                        began_before=start < period.begin,
                        ongoing=ongoing or at > period.end,
                    )
                )

    def _read_until(self, block: Block, row: int) -> None:
        """Compare the readings up to a row with the worst so far; a new block repeats the last row of the one before."""
        if self._block is not block:
            if self._block is not None:
                self._read(self._block, self._row, len(self._block.moments))
            self._block, self._row = block, 0
        self._read(block, self._row, row)
        self._row = row

    def _read(self, block: Block, first: int, last: int) -> None:
        if len(self.rules) > 1 or self._peers or first >= last or not self._mask.any():
            return
        positions = self._mask.nonzero()[0]
        rows = block.rows[self.rules[0].metric].values[first:last, positions]
        self._note(positions, self._extreme.reduce(rows, axis=0))

    def _compare(self, step: Step) -> None:
        """Compare a peer metric with the worst so far: unlike readings, it is known for the moments of decisions only."""
        if self._peers and self._mask.any():
            positions = self._mask.nonzero()[0]
            column = step.decisions.table.columns[self.rules[0].metric]
            self._note(positions, column.values[positions])

    def _note(self, positions: Positions, values: Floats) -> None:
        self._worst[positions] = self._extreme(self._worst[positions], values)


def tracks(policies: Sequence[Policy], nodes: NodeIndex) -> Iterator[Track]:
    """Yield the tracks of all policies."""
    for policy in policies:
        for name, strategy in policy.strategies.items():
            if name is not StrategyName.SCHEDULEONMETRIC:
                for numbers in _groups(strategy):
                    yield Track(policy, name, numbers, nodes)


def _groups(strategy: Strategy) -> Iterator[Sequence[int]]:
    if strategy.all_of:
        if strategy.rules:
            yield range(len(strategy.rules))
    else:
        yield from ([number] for number in range(len(strategy.rules)))


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
        """Node-seconds without a usable reading outside gaps, by metric; without nodes that never had it, if others do."""
        self.seconds = 0.0
        """Seconds of the range outside gaps."""
        self.gaps: list[tuple[float, float]] = []
        """Times without a fresh reading of any node (Unix seconds)."""

    def block(self, block: Block) -> None:
        """Add a block of moments."""
        moments = block.moments
        lengths = np.diff(moments.clip(self._period.begin, self._period.end))
        any_fresh = fresh_nodes(block.rows, moments, self._stale_after)[:-1]
        self.seconds += float(lengths @ any_fresh)
        for begin, end in zip(
            moments[:-1][~any_fresh & (lengths > 0)].tolist(),
            moments[1:][~any_fresh & (lengths > 0)].tolist(),
            strict=True,
        ):
            self._add_gap(max(begin, self._period.begin), min(end, self._period.end))
        for metric, rows in block.rows.items():
            fresh = is_fresh(rows.at, moments[:, None], self._stale_after)
            usable = fresh & (rows.counts == 1) & ~np.isnan(rows.values)
            having = np.count_nonzero(usable[:-1], axis=1)
            absent = np.count_nonzero((fresh & (rows.counts == NEVER_HAD))[:-1], axis=1)
            # Where no node has it, it counts as not found, as live.
            lacking = self._nodes - having - np.where(having, absent, 0)
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

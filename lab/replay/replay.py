"""Replays policies on recorded samples: calls the evaluator's `decide()` at each moment at which its result may change.

A replay is at a moment when samples are due (`step`), when a reading becomes stale, and when a `for` or `clearAfter`
ends. Moments at which no rule can see a change are skipped.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.core.model.arrays import Bools, Floats
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.policy.decide import Decisions, decide
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy
from evaluator.core.readings.merged import Merged, Readings
from evaluator.core.readings.peer_readings import PeerColumns
from evaluator.core.readings.peers import LabelGroups
from lab.replay.grid import (
    EXPIRY_PAUSE,
    Comparison,
    RecordedReadings,
    Rows,
    align,
    changes,
    expiries,
    never_reported,
    preferred,
)
from lab.replay.samples import Recording, Samples, empty

_CELLS = 1 << 20
"""Readings of one metric that are in memory at a time."""
_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: `step` between moments, and the age from which a reading is stale."""

    step: float = 15.0
    stale_after: float = 300.0


LabelsOfNode = Callable[[str], Mapping[str, str]]
"""Node → its labels."""


@dataclass(frozen=True)
class Block:
    """Consecutive moments with their readings by metric. The first moment belongs to the block before.

    `rows`: the readings that count, of whichever source. `sources`: those of each source, the preferred one first.
    """

    moments: Floats
    rows: Mapping[str, Rows]
    sources: Sequence[Mapping[str, Rows]]


@dataclass(frozen=True, slots=True)
class Step:
    """The decisions of one moment. `row`: the row of the block with the readings."""

    at: float
    decisions: Decisions
    block: Block
    row: int


class Replay:
    """Replays policies from `start` (Unix seconds) on. Call `run` with consecutive parts of the recording."""

    def __init__(
        self,
        policies: Sequence[Policy],
        nodes: NodeIndex,
        timing: Timing,
        *,
        start: float,
        sources: int = 1,
        skip: bool = True,
        labels: LabelsOfNode | None = None,
        on_block: Callable[[Block], None] = lambda _block: None,
    ) -> None:
        """`sources`: how many each recording has. `labels`: of nodes, which make groups of peers. `skip=False` evaluates every moment, for tests of skipping."""
        self._sources = sources
        self._policies = policies
        self._nodes = nodes
        self._timing = timing
        self._start = start
        self._skip = skip
        self._on_block = on_block
        self._began = start
        self._now = start
        self._decisions = Decisions()
        self._labels: Mapping[str, Mapping[str, str]] = {}
        self._due = start
        self._comparisons = _comparisons(policies)
        self._by_value = _compared_by_value(policies)
        self._peers = PeerColumns(LabelGroups(labels))
        self._last = self._nothing()
        self.evaluations = 0
        self.samples = 0

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that the policies name."""
        return frozenset(self._comparisons)

    def restart(self) -> None:
        """Restart the evaluator now: timers and readings are lost, node labels stay."""
        self._labels = self._decisions.labels
        self._decisions = Decisions()
        self._began = self._due = self._now
        self._last = self._nothing()

    def _nothing(self) -> list[dict[str, Samples]]:
        """Return, for each source, the readings before any report."""
        nothing = never_reported(len(self._nodes))
        return [dict.fromkeys(self._comparisons, nothing) for _ in range(self._sources)]

    def run(self, recording: Recording, until: float) -> Iterator[Step]:
        """Replay to `until` (Unix seconds), with samples after the last run; yields each evaluation."""
        size = max(2, min(_ROWS, _CELLS // max(1, len(self._nodes))))
        begin = self._now
        step = self._timing.step
        first = int(np.floor((begin - self._start) / step)) + 1
        last = int(np.floor((until - self._start) / step))
        ticks: Floats = self._start + step * np.arange(first, last + 1, dtype=np.float64)
        if not len(ticks) or ticks[-1] < until:
            ticks = np.append(ticks, until)
        for number in range(0, len(ticks), size):
            block = self._block(recording, ticks[number : number + size])
            self._on_block(block)
            yield from self._evaluations(block)
            self._now = float(block.moments[-1])
            self._last = [
                {metric: rows.last() for metric, rows in source.items()} for source in block.sources
            ]

    def _block(self, recording: Recording, ticks: Floats) -> Block:
        """Return the readings at these ticks, and at the moments between them at which one becomes stale."""
        stale_after = self._timing.stale_after
        moments = np.concatenate([[self._now], ticks[ticks > self._now]])
        startup_ends = self._began + stale_after + EXPIRY_PAUSE
        if moments[0] < startup_ends < moments[-1]:
            moments = np.union1d(moments, [startup_ends])
        begin, end = -np.inf if self._now == self._start else self._now, float(moments[-1])
        samples = [
            {m: source.get(m, empty()).between(begin, end) for m in self._comparisons}
            for source in recording.sources
        ]
        self.samples += sum(len(own.times) for source in samples for own in source.values())
        sources = self._aligned(samples, moments)
        every = [rows for source in sources for rows in source.values()]
        stale = expiries(every, moments, stale_after)
        if len(stale):
            moments = np.union1d(moments, stale)
            sources = self._aligned(samples, moments)
        rows = {
            metric: preferred([source[metric] for source in sources], moments, stale_after)
            for metric in self._comparisons
        }
        return Block(moments, rows, sources)

    def _aligned(
        self, samples: Sequence[Mapping[str, Samples]], moments: Floats
    ) -> list[dict[str, Rows]]:
        return [
            {metric: align(last[metric], own[metric], moments) for metric in self._comparisons}
            for last, own in zip(self._last, samples, strict=True)
        ]

    def _evaluations(self, block: Block) -> Iterator[Step]:
        moments = block.moments
        for row in self._changed(block).nonzero()[0].tolist():
            yield from self._until(float(moments[row]), block)
            if row or self._due <= moments[0]:
                yield self._evaluate(block, row, float(moments[row]))
        yield from self._until(float(np.nextafter(moments[-1], np.inf)), block)

    def _until(self, end: float, block: Block) -> Iterator[Step]:
        """Evaluate when a `for` or `clearAfter` ends before `end`."""
        while block.moments[0] < self._due < end:
            row = int(np.searchsorted(block.moments, self._due, side="right")) - 1
            yield self._evaluate(block, row, self._due)

    def _evaluate(self, block: Block, row: int, now: float) -> Step:
        stale_after = self._timing.stale_after
        recorded = [
            RecordedReadings(
                rows, row, stale_after=stale_after, expected_until=self._began + stale_after
            )
            for rows in block.sources
        ]
        readings: Readings = (
            recorded[0]
            if len(recorded) == 1
            else Merged({str(number): one for number, one in enumerate(recorded)})
        )
        self._decisions = decide(
            self._policies,
            self._nodes,
            readings,
            now=now,
            before=self._decisions,
            labels_of=lambda node: self._labels.get(node, {}),
            peers=self._peers,
        )
        self._due = self._decisions.valid_until
        self.evaluations += 1
        return Step(now, self._decisions, block, row)

    def _changed(self, block: Block) -> Bools:
        """Return at which moments of a block a rule may see a change, shape (moments,)."""
        changed = np.zeros(len(block.moments), bool)
        changed[0] = True
        if not self._skip:
            return ~np.zeros_like(changed)
        for metric, rows in ((m, rows) for source in block.sources for m, rows in source.items()):
            changed |= changes(
                rows,
                block.moments,
                self._timing.stale_after,
                self._comparisons[metric],
                by_value=metric in self._by_value,
            )
        started = block.moments >= self._began + self._timing.stale_after
        changed[1:] |= started[1:] != started[:-1]
        return changed


def _comparisons(policies: Sequence[Policy]) -> dict[str, list[Comparison]]:
    """Return the comparisons of all rules by metric."""
    found: dict[str, dict[Comparison, None]] = {}
    for policy in policies:
        for strategy in policy.strategies.values():
            for rule in strategy.rules:
                compared = found.setdefault(rule.base, {})
                if not rule.peers:
                    compared[rule.operator, rule.target] = None
    return {metric: [*pairs] for metric, pairs in found.items()}


def _compared_by_value(policies: Sequence[Policy]) -> frozenset[str]:
    """Return the metrics whose values choose among the labels of several violated rules, or are compared with peers'."""
    labeling = [policy.strategies.get(StrategyName.LABELING) for policy in policies]
    several = [one for one in labeling if one and len(one.rules) > 1]
    ordered = frozenset(rule.base for one in several for rule in one.rules)
    return ordered.union(rule.base for policy in policies for rule in policy.rules if rule.peers)

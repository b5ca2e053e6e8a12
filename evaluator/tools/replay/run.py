"""Runs a backtest: replays policies over a range and sums up what happened."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.policy.types import Policy, Strategy
from evaluator.core.simulation import Period, ReplayTotals, StartReplay
from evaluator.tools.replay.intervals import Track, tracks
from evaluator.tools.replay.replay import Block, LabelsOfNode, Replay, Step, Timing
from evaluator.tools.replay.samples import Recording
from evaluator.tools.replay.totals import Coverage, PolicyTotals

Resources = Mapping[str, Mapping[str, float]]
"""Node → resource → allocatable amount."""


@dataclass(frozen=True)
class PolicyResult:
    """What one policy did."""

    policy: Policy
    tracks: Sequence[Track]
    totals: PolicyTotals
    features: Sequence[ReplayTotals]
    """What each feature that is replayed did for it."""
    missing_share: float
    """Of its readings; NaN without any data."""


@dataclass(frozen=True)
class Result:
    """The result of a backtest over a range."""

    nodes: NodeIndex
    period: Period
    timing: Timing
    policies: Sequence[PolicyResult]
    coverage: Coverage
    samples: int
    evaluations: int
    allocatable: Resources = field(default_factory=dict)


class Backtest:
    """A backtest in progress. Call `run` with consecutive parts of a recording, then `result`."""

    def __init__(
        self,
        policies: Sequence[Policy],
        nodes: NodeIndex,
        timing: Timing,
        period: Period,
        *,
        start: float,
        sources: int = 1,
        features: Sequence[StartReplay] = (),
        labels: LabelsOfNode | None = None,
        progress: Callable[[float], None] = lambda _now: None,
    ) -> None:
        """`start`: when the replay begins, before the range (Unix seconds). `sources`: how many each recording has.

        `features`: what acts on the decisions. `labels`: of nodes, which make groups of peers. Observed policies are replayed as if enforced.
        """
        self._policies = [replace(policy, observed_by="") for policy in policies]
        self._written = {policy.key: policy for policy in policies}
        self._nodes = nodes
        self._timing = timing
        self._period = period
        self._replay = Replay(
            self._policies,
            nodes,
            timing,
            start=start,
            sources=sources,
            labels=labels,
            on_block=self._on_block,
        )
        self._tracks = [*tracks(self._policies, nodes)]
        self._totals = {p.key: PolicyTotals(p, nodes, period) for p in self._policies}
        self._features = [start(self._policies, nodes, period) for start in features]
        self._coverage = Coverage(period, timing.stale_after, len(nodes))
        self._progress = progress
        self._block: Block | None = None

    def run(self, recording: Recording, until: float) -> None:
        """Replay a part of the recording, to `until` (Unix seconds)."""
        for step in self._replay.run(recording, until):
            self._step(step)

    def _on_block(self, block: Block) -> None:
        self._coverage.block(block)
        self._progress(float(block.moments[0]))
        self._block = block

    def _step(self, step: Step) -> None:
        for track in self._tracks:
            track.step(step, self._period)
        for totals in self._totals.values():
            totals.step(step)
        for feature in self._features:
            feature.step(step.at, step.decisions)

    def result(self, allocatable: Resources | None = None) -> Result:
        """End the backtest and return its result. `allocatable`: resources of nodes, if known."""
        for track in self._tracks:
            track.finish(self._period, self._block)
        for totals in self._totals.values():
            totals.finish()
        for feature in self._features:
            feature.finish()
        facts = [
            PolicyResult(
                self._written[policy.key],
                [track for track in self._tracks if track.policy == policy.key],
                self._totals[policy.key],
                [feature.totals(policy.key) for feature in self._features],
                self._coverage.missing_share(policy.base_metrics),
            )
            for policy in self._policies
        ]
        return Result(
            self._nodes,
            self._period,
            self._timing,
            facts,
            self._coverage,
            self._replay.samples,
            self._replay.evaluations,
            allocatable or {},
        )


def warm_up(policies: Sequence[Policy], timing: Timing) -> float:
    """Return the seconds before a range that its first decisions depend on."""
    strategies: list[Strategy] = [s for p in policies for s in p.strategies.values()]
    options = [rule.options for strategy in strategies for rule in strategy.rules]
    longest = max((policy.for_seconds + policy.clear_after for policy in options), default=0.0)
    return float(np.ceil((longest + timing.stale_after) / timing.step) * timing.step)

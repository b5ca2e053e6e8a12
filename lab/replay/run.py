"""Runs a backtest: replays policies, or variants of them for a sensitivity table, over a range and sums up what happened."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy, Rule, RuleOptions, Strategy
from lab.interface import Period, ReplayTotals, StartReplay
from lab.replay.replay import Block, LabelsOfNode, Replay, Step, Timing
from lab.replay.samples import Recording
from lab.replay.totals import Coverage, PolicyTotals, Track, tracks

TARGETS = (0.8, 0.9, 1.0, 1.1, 1.2)
"""Factors of all targets."""
DURATIONS = (0.0, 1.0, 2.0)
"""Factors of all durations."""
FOR, CLEAR_AFTER = 120.0, 300.0
"""Seconds to vary where a policy has no duration."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Policies with scaled targets, `for` and `clearAfter`; the last two are factors of what is written, or of a default."""

    target: float
    for_factor: float
    clear_factor: float
    policies: Sequence[Policy]


def variants(policies: Sequence[Policy]) -> Iterator[Variant]:
    """Yield all combinations."""
    for target in TARGETS:
        for hold in DURATIONS:
            for clear in DURATIONS:
                made = [_policy(policy, target, hold, clear) for policy in policies]
                yield Variant(target, hold, clear, made)


def longest(policies: Sequence[Policy]) -> tuple[float, float]:
    """Return the longest `for` and `clearAfter` of the rules of policies (seconds), or the defaults that are varied."""
    options = [
        rule.options
        for policy in policies
        for strategy in policy.strategies.values()
        for rule in strategy.rules
    ]
    return (
        max((option.for_seconds for option in options), default=0.0) or FOR,
        max((option.clear_after for option in options), default=0.0) or CLEAR_AFTER,
    )


def _policy(policy: Policy, target: float, hold: float, clear: float) -> Policy:
    strategies = {
        name: strategy
        if name is StrategyName.SCHEDULEONMETRIC
        else _strategy(strategy, target, hold, clear)
        for name, strategy in policy.strategies.items()
    }
    return replace(policy, strategies=strategies)


def _strategy(strategy: Strategy, target: float, hold: float, clear: float) -> Strategy:
    rules: list[Rule] = []
    for rule in strategy.rules:
        options = RuleOptions(
            hold * (rule.options.for_seconds or FOR),
            clear * (rule.options.clear_after or CLEAR_AFTER),
            rule.options.when_missing,
        )
        scaled = rule.target if target == 1 else rule.target * target
        written = rule.written if target == 1 else ""
        rules.append(replace(rule, target=scaled, options=options, written=written))
    return replace(strategy, rules=tuple(rules))


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

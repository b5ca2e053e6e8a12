"""Metrics that scorers derive for a node and a pod, and that rules of policies can use like readings.

They are not requested from agents or other sources. The strategy states of a policy use their values for a pod without
requests; for a pod with the policy, they are computed again.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.model.arrays import Bools, Floats
from evaluator.core.model.node_index import NodeIndex, Reindex
from evaluator.core.model.requests import PodView
from evaluator.core.policy.decide import PerPodError
from evaluator.core.readings.column import NEVER, Column, unknown
from evaluator.core.readings.merged import Readings, ReadingsView
from evaluator.features.scorers.plugin import ClusterSnapshot, Scorer, ScorerResult

REFRESH = 5.0
"""Seconds between evaluations of derived metrics without other changes: pods that are bound cause no decision."""
RETRY = 0.2
"""The same while the cluster snapshot is not available."""

SnapshotSource = Callable[[], ClusterSnapshot | None]
"""Returns the current cluster snapshot, the same object while nothing changes; None while it is not available."""


class DerivedMetricError(PerPodError):
    """A scorer failed because of a bug in it, which is logged; the message is for the client."""


@dataclass(frozen=True, slots=True)
class DerivedMetric:
    """A number from 0 to 1: the maximum of the known values of some facts of a scorer."""

    scorer: str
    facts: tuple[str, ...]
    by_kind: bool = False
    """Whether it depends on the pod's kind, not only on its requests."""

    def read(self, result: ScorerResult) -> Floats:
        """Return the metric per node of the snapshot; NaN if unknown."""
        first, *rest = (result.facts[name] for name in self.facts)
        for other in rest:
            first = np.fmax(first, other)
        return first


DERIVED_METRICS: Mapping[str, DerivedMetric] = {
    "plimsoll_risk": DerivedMetric("safe", ("cpu.risk", "memory.risk")),
    "plimsoll_risk_cpu": DerivedMetric("safe", ("cpu.risk",)),
    "plimsoll_risk_memory": DerivedMetric("safe", ("memory.risk",)),
    "plimsoll_congestion": DerivedMetric("congestion", ("congestion",)),
    "plimsoll_reward": DerivedMetric("reward", ("reward",), by_kind=True),
}
"""By metric name in rules."""

NO_REQUESTS = PodView()
"""A pod without requests: with it, a derived metric describes a node as it is now."""


def named(metrics: Collection[str]) -> frozenset[str]:
    """Return the derived metrics among `metrics`."""
    return frozenset(metrics) & DERIVED_METRICS.keys()


def measured(metrics: frozenset[str]) -> frozenset[str]:
    """Return the node metrics among `metrics`, which sources of readings provide."""
    return metrics if metrics.isdisjoint(DERIVED_METRICS) else metrics - DERIVED_METRICS.keys()


def values(
    names: Iterable[str],
    scorers: Mapping[str, Scorer],
    view: ClusterSnapshot,
    pod: PodView,
    guard: Guard = UNGUARDED,
) -> dict[str, Floats]:
    """Return derived metrics for a pod over the nodes of a snapshot, NaN if unknown; those of disabled scorers are left out.

    Runs each scorer once; `guard` notes what one raises. Raises DerivedMetricError.
    """
    results: dict[str, ScorerResult] = {}
    by_name = {}
    for name in names:
        metric = DERIVED_METRICS[name]
        scorer = scorers.get(metric.scorer)
        if scorer is None:
            continue
        if metric.scorer not in results:
            results[metric.scorer] = _result(metric.scorer, scorer, view, pod, guard)
        by_name[name] = metric.read(results[metric.scorer])
    return by_name


def _result(
    name: str, scorer: Scorer, view: ClusterSnapshot, pod: PodView, guard: Guard
) -> ScorerResult:
    """Return a scorer's result; a failing scorer must not end the decisions of other policies."""
    try:
        found = scorer.score(view, pod)
    except Exception as error:
        guard.failed(name)
        raise DerivedMetricError(f"scorer {name} failed: {type(error).__name__}") from error
    guard.succeeded(name)
    return found


def no_snapshot() -> ClusterSnapshot | None:
    """Return None: an evaluator without scorers has no snapshot."""
    return None


@dataclass(frozen=True, slots=True)
class Scoring:
    """The inputs of derived metrics: scorers by name, and the snapshot source; `guard` notes what a scorer raises."""

    scorers: Mapping[str, Scorer] = field(default_factory=dict)
    snapshot: SnapshotSource = no_snapshot
    guard: Guard = UNGUARDED


OFF = Scoring()
"""No scorers: derived metrics have a fault that names the flag."""


@dataclass(slots=True)
class _Known:
    """Derived metrics of one snapshot. `again`: seconds until the next evaluation."""

    view: ClusterSnapshot | None = None
    values: dict[str, Floats] = field(default_factory=dict)
    again: float = np.inf


class ScorerMetrics(ReadingsView):
    """Readings of sources, and derived metrics for a pod without requests.

    A derived metric is missing if the scorer cannot compute it, and pending if the first reading of one of its inputs
    is. Its inputs are checked for staleness by the snapshot, so it is always current.
    """

    def __init__(
        self, readings: Readings, scoring: Scoring, *, known: "_Known | None" = None
    ) -> None:
        super().__init__(readings)
        self._scorers = scoring.scorers
        self._snapshot = scoring.snapshot
        self._guard = scoring.guard
        self._known = known or _Known()

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """Return a column of readings or of a derived metric over some nodes."""
        metric_source = DERIVED_METRICS.get(metric)
        if metric_source is None:
            return self._readings.column(metric, nodes, now)
        if metric_source.scorer not in self._scorers:
            return unknown(
                len(nodes), unreported=False, fault=_disabled_fault(metric_source.scorer)
            )
        view = self._snapshot()
        self._known.again = REFRESH if view is not None else RETRY
        if view is None:
            return unknown(len(nodes), unreported=True)
        try:
            values = over(self._current(metric, view), view, nodes)
        except DerivedMetricError as error:
            return unknown(len(nodes), unreported=False, fault=str(error))
        column = unknown(len(nodes), unreported=False)._replace(at=np.full(len(nodes), now))
        unusable = np.isnan(values)
        if unusable.any():
            unreported, reported_at = self._inputs(metric_source.scorer, nodes, now)
            at = np.where(unusable, reported_at, now)
            column = column._replace(unreported=unusable & unreported, at=at)
        return with_values(column, values)

    def _over(self, readings: Readings) -> Readings:
        """Return the same view of a snapshot: derived metrics are those of the scorers' one when the first is read."""
        scoring = Scoring(self._scorers, cache(self._snapshot), self._guard)
        return ScorerMetrics(readings, scoring, known=self._known)

    def _current(self, metric: str, view: ClusterSnapshot) -> Floats:
        """Return a derived metric for a pod without requests; those of one scorer are computed together, once per snapshot."""
        if self._known.view is not view:
            self._known.view, self._known.values = view, {}
        known = self._known.values
        if metric not in known:
            scorer = DERIVED_METRICS[metric].scorer
            siblings = [name for name, other in DERIVED_METRICS.items() if other.scorer == scorer]
            known.update(values(siblings, self._scorers, view, NO_REQUESTS, self._guard))
        return known[metric]

    def _inputs(self, scorer: str, nodes: Sequence[str], now: float) -> tuple[Bools, Floats]:
        """Return where the first reading of a scorer's input is pending, and when the last reading arrived."""
        unreported, reported_at = np.zeros(len(nodes), dtype=bool), np.full(len(nodes), NEVER)
        for metric in self._scorers[scorer].metrics:
            column = self._readings.column(metric, nodes, now)
            unreported |= column.unreported
            reported_at = np.maximum(reported_at, column.at)
        return unreported, reported_at

    def next_expiry(self, now: float) -> float:
        """Return when a column changes without new input (seconds)."""
        return min(self._readings.next_expiry(now), now + self._known.again)

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Keep only these metrics; derived metrics are not subscribed to."""
        self._known.again = np.inf
        self._readings.subscribe(measured(frozenset(metrics)))


def _disabled_fault(scorer: str) -> str:
    return f"its scorer {scorer} is not enabled: start the evaluator with --scorers={scorer}"


def over(values: Floats, view: ClusterSnapshot, nodes: Sequence[str]) -> Floats:
    """Return values of a snapshot's nodes over other nodes; NaN for nodes outside the snapshot."""
    if view.nodes is nodes or view.nodes == nodes:
        return values
    return Reindex(view.nodes, nodes if isinstance(nodes, NodeIndex) else NodeIndex(nodes)).values(
        values
    )


def with_values(column: Column, values: Floats) -> Column:
    """Return a column of a derived metric with other values."""
    known = ~np.isnan(values)
    return column._replace(measured=values, samples=known.astype(np.int32), fresh=known)

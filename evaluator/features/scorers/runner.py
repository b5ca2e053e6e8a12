"""Runs scorers on the current cluster snapshot, with cached results and metrics.

For one pod, kube-scheduler calls a filter and one or two priorities of each scorer in a row. They share one result while the
snapshot does not change.
"""

import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from evaluator.core.isolation import Part, uncounted
from evaluator.core.model.node_index import NodeIndex, NodeScores
from evaluator.core.model.requests import PodView
from evaluator.core.model.resources import Amounts, Resource
from evaluator.features.scorers.plugin import (
    BEST,
    ClusterSnapshot,
    Demands,
    NodeRejection,
    Scorer,
    ScorerResult,
    Scores,
)

_MOST_CACHED = 32
"""Cached results: about 0.5 MB each with 5,000 nodes."""


class ScoringMetrics:
    """The metrics of scorers."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.scorer_requests = Counter(
            "plimsoll_scorer_requests",
            "Requests of kube-scheduler to a scorer by verb, HTTP status and whether a cached result was used.",
            ["scorer", "verb", "code", "outcome"],
            registry=registry,
        )
        self.scorer_seconds = Histogram(
            "plimsoll_scorer_duration_seconds",
            "Time of a scorer to assess all nodes for one pod.",
            ["scorer"],
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
            registry=registry,
        )
        self.scorer_missing_nodes = Gauge(
            "plimsoll_scorer_missing_nodes",
            "Nodes without an input that a scorer needs, at its last assessment.",
            ["scorer"],
            registry=registry,
        )


def check_result(result: ScorerResult, scorer: Scorer, nodes: int) -> None:
    """Validate a result for `nodes` nodes. Raises ValueError or TypeError; AttributeError if it is not made of arrays."""
    masks = [refusal.where for refusals in result.refusals.values() for refusal in refusals]
    if result.missing is not None:
        masks.append(result.missing)
    for mask in masks:
        if mask.dtype != np.bool_:
            raise TypeError(f"a mask of {mask.dtype}")
    for array in (*masks, *result.scores.values(), *result.facts.values()):
        if array.shape != (nodes,):
            raise ValueError(f"an array of {array.shape} for {nodes} nodes")
    _check_names("predicates", result.refusals, scorer.predicates)
    _check_names("priorities", result.scores, scorer.priorities)
    for name, scores in result.scores.items():
        _check_scores(name, scores)


def _check_names(what: str, used: Iterable[str], own: Iterable[str]) -> None:
    if others := sorted({*used} - {*own}):
        raise ValueError(f"{what} that are not its own: {', '.join(others)}")


def _check_scores(name: str, scores: Scores) -> None:
    if not np.issubdtype(scores.dtype, np.integer):
        raise TypeError(f"scores of {name} that are not integers")
    if scores.size and not 0 <= scores.min() <= scores.max() <= BEST:
        raise ValueError(f"scores of {name} outside 0..{BEST}")


def refused(
    nodes: NodeIndex, refusals: Sequence[NodeRejection], names: Sequence[str]
) -> dict[str, str]:
    """Return the rejected nodes among `names` with their first reason. Unknown nodes are not rejected."""
    reasons: dict[str, str] = {}
    positions = nodes.find(names)
    for refusal in refusals:
        hit = (positions >= 0) & refusal.where[positions] if len(nodes) else positions >= 0
        for position in hit.nonzero()[0].tolist():
            reasons.setdefault(names[position], refusal.reason)
    return reasons


def scored(nodes: NodeIndex, scores: Scores, names: Sequence[str]) -> NodeScores:
    """Return the scores of `names`, in order; unknown nodes are left out, which the scheduler reads as 0."""
    positions = nodes.find(names)
    known = positions[positions >= 0]
    return NodeScores(nodes, known, scores[known])


class SnapshotSource(Protocol):
    """Provides cluster snapshots for scorers; implemented by Snapshotter."""

    @property
    def waiting_for(self) -> Sequence[str]:
        """What is missing before a snapshot may be used."""
        ...

    def view(self) -> ClusterSnapshot:
        """Return the current snapshot; the same object while nothing changes."""
        ...


class ScorerError(Exception):
    """A scorer failed because of a bug in it, which is logged; the message is for the client."""


@dataclass(frozen=True, slots=True)
class CachedResult:
    """A scorer's result and its snapshot. `remembered`: whether it was in the cache."""

    view: ClusterSnapshot
    result: ScorerResult
    remembered: bool = False


class ScorerRunner:
    """Runs the enabled scorers and caches their results.

    `demands`: the requests of recent pods. Only the scorer named `counting` sees and updates them; otherwise every pod would
    change the snapshot of all scorers.
    """

    def __init__(
        self,
        scorers: Mapping[str, Scorer],
        snapshotter: SnapshotSource,
        metrics: ScoringMetrics,
        *,
        demands: Demands,
        counting: str = "pigeon",
        part: Part | None = None,
    ) -> None:
        self._part = part or uncounted("scorers")
        self.scorers = scorers
        self._snapshotter = snapshotter
        self._metrics = metrics
        self._demands = demands
        self._counting = counting
        self._view: ClusterSnapshot | None = None
        self._cached: OrderedDict[Hashable, CachedResult] = OrderedDict()

    @property
    def waiting_for(self) -> Sequence[str]:
        """What is missing before scorers may run."""
        return self._snapshotter.waiting_for

    def view(self, name: str) -> ClusterSnapshot:
        """Return the current snapshot for a scorer; the same object while nothing it sees changes."""
        view = self._snapshotter.view()
        if view is not self._view:
            self._view = view
            self._cached.clear()
        return replace(view, demands=self._demands) if name == self._counting else view

    def run(self, name: str, pod: PodView) -> CachedResult:
        """Return a scorer's result for a pod that is being scheduled. Raises ScorerError."""
        if name == self._counting:
            self._demands = self._demands.seen(pod)
        view = self.view(name)
        key = (name, pod.kind, _hashable(pod.requests), view.demands)
        if (known := self._cached.get(key)) is not None:
            return replace(known, remembered=True)
        cached = self._cached[key] = CachedResult(view, self._measure(name, view, pod))
        if len(self._cached) > _MOST_CACHED:
            self._cached.popitem(last=False)
        return cached

    def run_uncached(self, name: str, pod: PodView) -> CachedResult:
        """Return a scorer's result without caching, metrics or an update of `demands`. Raises ScorerError."""
        view = self.view(name)
        return CachedResult(view, self._run_scorer(name, view, pod))

    def _measure(self, name: str, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
        begun = time.perf_counter()
        result = self._run_scorer(name, view, pod)
        self._metrics.scorer_seconds.labels(name).observe(time.perf_counter() - begun)
        missing = 0 if result.missing is None else int(np.count_nonzero(result.missing))
        self._metrics.scorer_missing_nodes.labels(name).set(missing)
        return result

    def _run_scorer(self, name: str, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
        scorer = self.scorers[name]
        try:
            result = scorer.score(view, pod)
            check_result(result, scorer, len(view.nodes))
            self._part.succeeded(name)
            return result
        except Exception as error:
            self._part.failed(name)
            raise ScorerError(f"scorer {name} failed: {type(error).__name__}") from error


def _hashable(amounts: Amounts) -> frozenset[tuple[Resource, float]]:
    return frozenset(amounts.items())

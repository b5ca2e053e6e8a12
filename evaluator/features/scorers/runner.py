"""Runs scorers on the current cluster snapshot, with cached results and metrics.

For one pod, kube-scheduler calls a filter and one or two priorities of each scorer in a row. They share one result while the
snapshot does not change.
"""

import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from evaluator.core.metrics import Metrics
from evaluator.core.model.pod_demand import Amounts, PodView, Resource
from evaluator.features.scorers.demand import Demands
from evaluator.features.scorers.plugin import Scorer, ScorerResult
from evaluator.features.scorers.results import check
from evaluator.features.scorers.snapshot import ClusterSnapshot
from plimsoll import logs
from plimsoll.logs.ratelimited import RateLimitedLogger

log = logs.get(__name__)

_MOST_CACHED = 32
"""Cached results: about 0.5 MB each with 5,000 nodes."""


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
        metrics: Metrics,
        *,
        demands: Demands,
        counting: str = "pigeon",
    ) -> None:
        self.scorers = scorers
        self._snapshotter = snapshotter
        self._metrics = metrics
        self._demands = demands
        self._counting = counting
        self._view: ClusterSnapshot | None = None
        self._cached: OrderedDict[Hashable, CachedResult] = OrderedDict()
        self._failures = RateLimitedLogger(log, "exception", overflow="debug", rate=0.1, burst=3)

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
        if (found := self._cached.get(key)) is not None:
            return replace(found, remembered=True)
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
        found = self._run_scorer(name, view, pod)
        self._metrics.scorer_seconds.labels(name).observe(time.perf_counter() - begun)
        missing = 0 if found.missing is None else int(np.count_nonzero(found.missing))
        self._metrics.scorer_missing_nodes.labels(name).set(missing)
        return found

    def _run_scorer(self, name: str, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
        scorer = self.scorers[name]
        try:
            found = scorer.score(view, pod)
            check(found, scorer, len(view.nodes))
            return found
        except Exception as error:
            # A bug affects every pod: tracebacks are rate-limited, the request counter has all failures.
            self._failures.log("scorer failed", scorer=name, pod=pod.name, error=str(error))
            raise ScorerError(f"scorer {name} failed: {type(error).__name__}") from error


def _hashable(amounts: Amounts) -> frozenset[tuple[Resource, float]]:
    return frozenset(amounts.items())

"""Asks the scorers: about the cluster as it is now, once for each pod and what the answer rests on, timed and counted.

kube-scheduler asks of one pod several things in a row: a filter and a priority or two of each scorer. They are answered
from one assessment, as long as nothing changed that the scorers see.
"""

import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from evaluator.metrics import Metrics
from evaluator.model.pod_demand import Amounts, PodView, Resource
from evaluator.scoring.demand import Demands
from evaluator.scoring.plugin import Scorer, ScorerResult
from evaluator.scoring.results import check
from evaluator.scoring.snapshot import ClusterSnapshot
from plimsoll import logs
from plimsoll.logs.ratelimited import RateLimitedLogger

log = logs.get(__name__)

_REMEMBERED = 32
"""Assessments of 5,000 nodes are some 0.5 MB each."""


class SnapshotSource(Protocol):
    """What is known of the cluster, for scorers."""

    @property
    def waiting_for(self) -> Sequence[str]:
        """What is missing before a view may be used."""
        ...

    def view(self) -> ClusterSnapshot:
        """The cluster now: the same object as long as nothing changed."""
        ...


class ScorerError(Exception):
    """A scorer failed: a mistake in it, which the log has; the text is for who asks."""


@dataclass(frozen=True, slots=True)
class CachedAssessment:
    """An assessment, and the view that it is of."""

    view: ClusterSnapshot
    assessment: ScorerResult
    remembered: bool = False


class ScorerRunner:
    """The scorers that are on, and what they last said.

    `demands` are what pods asked for before: only the scorer called `counting` sees them, and only its questions add to them,
    or every pod would change the cluster for everybody.
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
        self._cached: OrderedDict[Hashable, CachedAssessment] = OrderedDict()
        self._failures = RateLimitedLogger(log.exception, overflow=log.debug, rate=0.1, burst=3)

    @property
    def waiting_for(self) -> Sequence[str]:
        """What is missing before anything may be asked."""
        return self._snapshotter.waiting_for

    def view(self, name: str) -> ClusterSnapshot:
        """What a scorer would look at now: the same object as long as nothing changed that it sees."""
        view = self._snapshotter.view()
        if view is not self._view:
            self._view = view
            self._cached.clear()
        return replace(view, demands=self._demands) if name == self._counting else view

    def assess(self, name: str, pod: PodView) -> CachedAssessment:
        """What a scorer that is on says of every node, for a pod that is being placed. Raises ScorerError."""
        if name == self._counting:
            self._demands = self._demands.seen(pod)
        view = self.view(name)
        key = (name, pod.kind, _hashable(pod.requests), view.demands)
        if (found := self._cached.get(key)) is not None:
            return replace(found, remembered=True)
        cached = self._cached[key] = CachedAssessment(view, self._ask(name, view, pod))
        if len(self._cached) > _REMEMBERED:
            self._cached.popitem(last=False)
        return cached

    def look(self, name: str, pod: PodView) -> CachedAssessment:
        """The same for people who look: it is not counted, and no pod is taken to be placed. Raises ScorerError."""
        view = self.view(name)
        return CachedAssessment(view, self._run_scorer(name, view, pod))

    def _ask(self, name: str, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
        begun = time.perf_counter()
        found = self._run_scorer(name, view, pod)
        self._metrics.scorer_seconds.labels(name).observe(time.perf_counter() - begun)
        missing = 0 if found.missing is None else int(np.count_nonzero(found.missing))
        self._metrics.scorer_missing_nodes.labels(name).set(missing)
        return found

    def _run_scorer(self, name: str, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
        scorer = self.scorers[name]
        try:
            found = scorer.assess(view, pod)
            check(found, scorer, len(view.nodes))
            return found
        except Exception as error:
            # A mistake in it comes with every pod; the counter of requests has them all.
            self._failures.log("scorer failed", scorer=name, pod=pod.name, error=str(error))
            raise ScorerError(f"scorer {name} failed: {type(error).__name__}") from error


def _hashable(amounts: Amounts) -> frozenset[tuple[Resource, float]]:
    return frozenset(amounts.items())

"""Metrics that scorers derive for a node and a pod, and that rules of policies can use like readings.

They are not requested from agents or other sources. The strategy states of a policy use their values for a pod without
requests; for a pod with the policy, they are computed again.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from evaluator.core.model.node_index import Floats
from evaluator.core.model.pod_demand import PodView
from evaluator.features.scorers.plugin import Scorer, ScorerResult
from evaluator.features.scorers.snapshot import ClusterSnapshot

log = logging.getLogger(__name__)


class DerivedMetricError(Exception):
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
    names: Iterable[str], scorers: Mapping[str, Scorer], view: ClusterSnapshot, pod: PodView
) -> dict[str, Floats]:
    """Return derived metrics for a pod over the nodes of a snapshot, NaN if unknown; those of disabled scorers are left out.

    Runs each scorer once. Raises DerivedMetricError.
    """
    results: dict[str, ScorerResult] = {}
    found = {}
    for name in names:
        metric = DERIVED_METRICS[name]
        scorer = scorers.get(metric.scorer)
        if scorer is None:
            continue
        if metric.scorer not in results:
            results[metric.scorer] = _result(metric.scorer, scorer, view, pod)
        found[name] = metric.read(results[metric.scorer])
    return found


def _result(name: str, scorer: Scorer, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
    """Return a scorer's result; a failing scorer must not end the decisions of other policies."""
    try:
        return scorer.score(view, pod)
    except Exception as error:
        log.exception("scorer %s failed", name)
        raise DerivedMetricError(f"scorer {name} failed: {type(error).__name__}") from error

"""Metrics that scorers derive for a node and a pod, and that rules of policies can use like readings.

They are not requested from agents or other sources. The strategy states of a policy use their values for a pod without
requests; for a pod with the policy, they are computed again.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from evaluator.model.node_index import Floats
from evaluator.model.pod_demand import PodView
from evaluator.scoring.plugin import Scorer, ScorerResult
from evaluator.scoring.snapshot import ClusterSnapshot

log = logging.getLogger(__name__)


class DerivedMetricError(Exception):
    """A scorer failed: a mistake in it, which the log has; the text is for who asks."""


@dataclass(frozen=True, slots=True)
class DerivedMetric:
    """One number, 0 to 1: the greatest of some facts of a scorer, of those that are known."""

    scorer: str
    facts: tuple[str, ...]
    by_kind: bool = False
    """Whether it depends on what kind of pod is asked about, and not on what the pod asks for alone."""

    def read(self, result: ScorerResult) -> Floats:
        """Per node of the view; NaN where it is not known."""
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
"""By the name that rules call it."""

NOBODY = PodView()
"""The pod that asks for nothing: with it, a quantity tells how a node is now."""


def named(metrics: Collection[str]) -> frozenset[str]:
    """Which of these are quantities, and not metrics of nodes."""
    return frozenset(metrics) & DERIVED_METRICS.keys()


def measured(metrics: frozenset[str]) -> frozenset[str]:
    """Which of these are metrics of nodes: all that sources of readings may be asked for."""
    return metrics if metrics.isdisjoint(DERIVED_METRICS) else metrics - DERIVED_METRICS.keys()


def values(
    names: Iterable[str], scorers: Mapping[str, Scorer], view: ClusterSnapshot, pod: PodView
) -> dict[str, Floats]:
    """These quantities for a pod over the nodes of a view, NaN where not known; one whose scorer is not there is left out.

    Each scorer is asked once. Raises QuantityError.
    """
    results: dict[str, ScorerResult] = {}
    found = {}
    for name in names:
        quantity = DERIVED_METRICS[name]
        scorer = scorers.get(quantity.scorer)
        if scorer is None:
            continue
        if quantity.scorer not in results:
            results[quantity.scorer] = _result(quantity.scorer, scorer, view, pod)
        found[name] = quantity.read(results[quantity.scorer])
    return found


def _result(name: str, scorer: Scorer, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
    """What a scorer says. One that fails must not end all decisions, of policies that do not name it too."""
    try:
        return scorer.score(view, pod)
    except Exception as error:
        log.exception("scorer %s failed", name)
        raise DerivedMetricError(f"scorer {name} failed: {type(error).__name__}") from error

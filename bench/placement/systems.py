"""The systems of the placement benchmark: what each adds to kube-scheduler's default plugins.

`plimsoll...` are the evaluator's own decisions, answers and evictions: in the model engine its functions, in the real engine
its process. Names ending in `-model` are models of other systems, by their published formulas.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench import cluster
from bench.placement.peers import (
    Descheduler,
    Koordinator,
    LoadVariationRiskBalancing,
    Oracle,
    TargetLoadPacking,
    TelemetryAwareScheduling,
)
from evaluator.core.model.node_index import Positions
from evaluator.core.policy.parse import parse
from evaluator.features.registry import VOCABULARY
from lab.adapters.registry import DESCHEDULING, VERBS
from lab.closed_loop.systems import DefaultPlugins, Plimsoll, System
from lab.closed_loop.workload import Nodes, SimulatedPod

METRIC = "node_cpu_utilisation_ratio"
"""Use of the last minute as a share of the node: the shipped rule that policies of the benchmark name."""
PERCENT = "cpu_used_percent"
"""The same in percent, for Telemetry Aware Scheduling."""
REFUSED_FROM = 0.9
"""The target of dontschedule."""
LEFT_FROM = 0.75
"""The target of deschedule, with evictions."""
_INTERVAL = 120.0
"""Seconds between two runs of descheduler, as its chart's CronJob."""
_MOST_PER_NODE = 5
"""maxNoOfPodsToEvictPerNode of deploy/descheduler/policy.yaml."""


def policy_object(
    annotations: Mapping[str, str], *, evict: bool = False, percent: bool = False
) -> dict[str, Any]:
    """Return the policy of all pods: prefer nodes with little use, and none above the target.

    `percent`: for Telemetry Aware Scheduling, whose targets are whole numbers.
    """
    metric = PERCENT if percent else METRIC

    def above(target: float) -> list[Mapping[str, Any]]:
        value = round(100 * target) if percent else str(target)
        return [cluster.rule(metric, value)]

    rules: dict[str, Any] = {
        "scheduleonmetric": [cluster.rule(metric, 0, "LessThan")],
        "dontschedule": above(REFUSED_FROM),
    }
    if evict:
        rules["deschedule"] = above(LEFT_FROM)
    strategies = {name: {"rules": found} for name, found in rules.items()}
    return cluster.policy_object(
        "balance", strategies, namespace="default", annotations=dict(annotations)
    )


@dataclass(frozen=True)
class Evaluated:
    """Plimsoll with an extender weight and annotations of its policy; `evict`: with --evict and the shipped limits."""

    weight: int
    annotations: Mapping[str, str] = field(default_factory=dict)
    evict: bool = False

    def __call__(self, nodes: Nodes) -> System:
        """Return the system for the model engine."""
        policy = parse(policy_object(self.annotations, evict=self.evict), vocabulary=VOCABULARY)
        assert DESCHEDULING is not None
        descheduler = DESCHEDULING.start(DESCHEDULING.options(evict=self.evict))
        return Plimsoll(nodes, [policy], VERBS, weight=self.weight, descheduler=descheduler)


class LabelLoop(Plimsoll):
    """Plimsoll without --evict, and a model of descheduler with deploy/descheduler/policy.yaml.

    Pods have a required node affinity against the label: none is placed on a labelled node, and RemovePodsViolatingNodeAffinity
    evicts them from there, as long as another node has no label.
    """

    _due = _INTERVAL

    def permitted(self, pod: SimulatedPod, feasible: Positions, now: float) -> Positions:
        """Return the nodes without the label that the extender's filter does not reject."""
        feasible = super().permitted(pod, feasible, now)
        without = [node for node in feasible.tolist() if self._names[node] not in self.labelled]
        return np.array(without, dtype=np.intp)

    def descheduled(self, now: float) -> Sequence[str]:
        """Return the pods that a run of descheduler evicts now."""
        self._decided(now)
        if now < self._due or len(self.labelled) == len(self._names):
            return ()
        self._due = now + _INTERVAL
        evicted: Counter[str] = Counter()
        found = []
        for name, pod in self._pods.items():
            node = pod.spec.node_name
            if node in self.labelled and evicted[node] < _MOST_PER_NODE:
                evicted[node] += 1
                found.append(name)
        return found


@dataclass(frozen=True)
class Labelling:
    """Plimsoll with an extender weight and a ranking, whose labels descheduler acts on."""

    weight: int
    ranking: str

    def __call__(self, nodes: Nodes) -> System:
        """Return the system for the model engine."""
        annotations = {"plimsoll.io/ranking": self.ranking}
        policy = parse(policy_object(annotations, evict=True), vocabulary=VOCABULARY)
        return LabelLoop(nodes, [policy], VERBS, weight=self.weight)


@dataclass(frozen=True)
class Tas:
    """The model of Telemetry Aware Scheduling with an extender weight."""

    weight: int

    def __call__(self, nodes: Nodes) -> System:
        """Return the system for the model engine."""
        return TelemetryAwareScheduling(nodes, REFUSED_FROM, self.weight)


def default(_nodes: Nodes) -> System:
    """Return the default plugins alone."""
    return DefaultPlugins()


def one_at_a_time(nodes: Nodes) -> System:
    """Return descheduler with at most one pod of a node in a run."""
    return Descheduler(nodes, per_node=1)


_BEFORE = {"plimsoll.io/placed-since": "ignore", "plimsoll.io/ranking": "rank"}
"""Ranks by the last reading, as up to commit ec19fd99."""


def _of_plimsoll() -> Mapping[str, Evaluated]:
    found = {}
    for weight in (1, 5, 10):
        found[f"plimsoll-before-w{weight}"] = Evaluated(weight, _BEFORE)
        for ranking in ("rank", "value", "headroom"):
            annotations = {"plimsoll.io/ranking": ranking}
            found[f"plimsoll-{ranking}-w{weight}"] = Evaluated(weight, annotations)
            found[f"plimsoll-{ranking}-w{weight}-evict"] = Evaluated(weight, annotations, True)
    return found


SYSTEMS: Mapping[str, Callable[[Nodes], System]] = {
    "default": default,
    **_of_plimsoll(),
    "tas-w1-model": Tas(1),
    "tas-w10-model": Tas(10),
    "trimaran-packing-model": TargetLoadPacking,
    "trimaran-risk-model": LoadVariationRiskBalancing,
    "koordinator-model": Koordinator,
    "descheduler-model": Descheduler,
    "descheduler-one-model": one_at_a_time,
    "plimsoll-value-w5-labels-model": Labelling(5, "value"),
    "oracle": Oracle,
}
"""By name; `w` is the extender's weight."""
TABLE = (
    "default",
    "plimsoll-before-w1",
    "plimsoll-before-w10",
    "plimsoll-rank-w1",
    "plimsoll-value-w1",
    "plimsoll-value-w5",
    "plimsoll-value-w10",
    "plimsoll-headroom-w5",
    "tas-w1-model",
    "trimaran-packing-model",
    "trimaran-risk-model",
    "koordinator-model",
    "oracle",
    "plimsoll-value-w5-evict",
    "plimsoll-value-w5-labels-model",
    "descheduler-one-model",
)
"""The systems of the published table."""

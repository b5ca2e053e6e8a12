"""The systems of the placement benchmark in the model engine.

`default` is kube-scheduler's default plugins; every other system adds to their scores, or filters, as it does beside them.
`plimsoll...` are the evaluator's own decisions and answers. The others are models of published formulas, in `peers`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from bench.placement.peers import TelemetryAwareScheduling
from evaluator.core.policy.parse import parse
from evaluator.core.policy.types import Policy
from evaluator.core.simulation import ExtenderVerbs
from evaluator.features.registry import FEATURES, VOCABULARY
from evaluator.tools.closed_loop.systems import DefaultPlugins, Plimsoll, System
from evaluator.tools.closed_loop.workload import Nodes

METRIC = "node_cpu_utilisation_ratio"
"""Use of the last minute as a share of the node: the shipped rule that policies of the benchmark name."""
REFUSED_FROM = 0.9
"""The target of dontschedule."""

MakeSystem = Callable[[Nodes], System]


def policy(annotations: Mapping[str, str], metric: str = METRIC) -> Policy:
    """Return the policy of all pods: prefer nodes with little use, and none above the target."""
    rules: Mapping[str, Any] = {
        "scheduleonmetric": [{"metricname": metric, "operator": "LessThan"}],
        "dontschedule": [
            {"metricname": metric, "operator": "GreaterThan", "target": str(REFUSED_FROM)}
        ],
    }
    strategies = {name: {"rules": found} for name, found in rules.items()}
    meta = {"name": "balance", "namespace": "default", "annotations": dict(annotations)}
    return parse({"metadata": meta, "spec": {"strategies": strategies}}, vocabulary=VOCABULARY)


def verbs() -> ExtenderVerbs:
    """Return the extender's verbs."""
    return next(feature.extender for feature in FEATURES if feature.extender is not None)


def plimsoll(weight: int, annotations: Mapping[str, str]) -> MakeSystem:
    """Return what makes Plimsoll with this extender weight and a policy with these annotations."""

    def make(nodes: Nodes) -> System:
        return Plimsoll(nodes, [policy(annotations)], verbs(), weight=weight)

    return make


def default(_nodes: Nodes) -> System:
    """Return the default plugins alone."""
    return DefaultPlugins()


_BEFORE = {"plimsoll.io/placed-since": "ignore", "plimsoll.io/ranking": "rank"}
"""Ranks by the last reading, as up to commit ec19fd99."""


def _weighted(weight: int) -> Mapping[str, MakeSystem]:
    tas: MakeSystem = lambda nodes: TelemetryAwareScheduling(nodes, REFUSED_FROM, weight)  # noqa: E731
    rankings = ("rank", "value", "headroom")
    return {
        f"plimsoll-before-w{weight}": plimsoll(weight, _BEFORE),
        **{
            f"plimsoll-{ranking}-w{weight}": plimsoll(weight, {"plimsoll.io/ranking": ranking})
            for ranking in rankings
        },
        f"tas-w{weight}": tas,
    }


SYSTEMS: Mapping[str, MakeSystem] = {
    "default": default,
    **_weighted(1),
    **_weighted(5),
    **_weighted(10),
}
"""By name; `w` is the extender's weight."""

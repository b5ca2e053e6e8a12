"""A synthetic cluster of any size: nodes, policies, readings, and the expected results.

It is deterministic. Expected results are computed here, independently of the evaluator's code.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

NAMESPACE = "bench"
POD_POLICY = "policy-000"
"""The policy of the pods in requests; it has all four strategies."""
METRICS = (
    "memory_used_percent",
    "cpu_pressure_percent",
    "io_pressure_percent",
    "disk_busy_percent",
    "network_busy_percent",
    "inodes_used_percent",
    "thermal_percent",
    "health_metric",
)
LIMIT = 95
"""Readings are uniform over 0..100, so one node in twenty violates a rule with this limit."""
OTHER_LIMIT = 90
"""The limit that an edit sets and reverts."""

Object = dict[str, Any]


def names(count: int) -> list[str]:
    """Return node names of 32 characters, like a cloud's."""
    return [f"aks-general-31415926-vmss{_base36(index):0>6}" for index in range(count)]


def _base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return (_base36(number // 36) if number >= 36 else "") + digits[number % 36]


def readings(nodes: Sequence[str], metric: str) -> dict[str, float]:
    """Return a distinct value for each node."""
    rng = random.Random(metric)
    ranks = list(range(len(nodes)))
    rng.shuffle(ranks)
    return {
        node: round(100 * (rank + 0.5) / len(nodes), 4)
        for node, rank in zip(nodes, ranks, strict=True)
    }


def violating(values: Mapping[str, float], limit: int = LIMIT) -> frozenset[str]:
    """Return the nodes that `POD_POLICY` rejects, by the readings of the first metric."""
    return frozenset(node for node, value in values.items() if value > limit)


def scores(values: Mapping[str, float], asked: Sequence[str]) -> dict[str, int]:
    """Return the score of each node by the distinct readings of the second metric: 10 for the lowest, down to 0."""
    ranked = sorted(asked, key=lambda node: values[node])
    last = len(ranked) - 1
    if last <= 10:
        return {node: 10 - rank for rank, node in enumerate(ranked)}
    return {node: 10 - (rank * 10 + last // 2) // last for rank, node in enumerate(ranked)}


def policies(count: int) -> list[Object]:
    """Return policies with rules on two metrics; every third has deschedule, every fourth labeling."""
    return [policy(number) for number in range(count)]


def policy(number: int, *, limit: int = LIMIT) -> Object:
    """Return one policy; `limit`: the target of its dontschedule rule."""
    first, second = (METRICS[(number + step) % len(METRICS)] for step in (0, 1))
    strategies: dict[str, Any] = {
        "dontschedule": {"rules": [rule(first, limit)]},
        "scheduleonmetric": {"rules": [rule(second, 0, "LessThan")]},
    }
    if number % 3 == 0:
        strategies["deschedule"] = {"rules": [rule(first, 99)]}
    if number % 4 == 0:
        strategies["labeling"] = {"rules": [rule(second, 99, labels=["busy=yes"])]}
    return policy_object(f"policy-{number:03}", strategies)


def policy_object(
    name: str,
    strategies: Mapping[str, Mapping[str, Any]],
    *,
    namespace: str = NAMESPACE,
    **metadata: Any,
) -> Object:
    """Return a TASPolicy; `metadata`: more of it."""
    return {
        "apiVersion": "telemetry.intel.com/v1alpha1",
        "kind": "TASPolicy",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"strategies": strategies},
    }


def rule(metric: str, target: float | str, operator: str = "GreaterThan", **more: Any) -> Object:
    """Return a rule of a policy; `more`: other fields of it."""
    return {"metricname": metric, "operator": operator, "target": target, **more}

"""A made-up cluster of any size: nodes as large as real ones, policies of all kinds, readings, and what follows from them.

Everything is the same in each run. What follows is reckoned here anew and not by the evaluator's code, whose answers it
checks.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

NAMESPACE = "bench"
POD_POLICY = "policy-000"
"""The policy that the pods of the requests follow: it has all four strategies."""
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
"""Readings are spread evenly over 0..100, so a rule with this limit holds on one node in twenty."""
OTHER_LIMIT = 90
"""What an edit makes of it, and takes back."""

Object = dict[str, Any]


def names(count: int) -> list[str]:
    """Nodes as a cloud names them, 32 characters each."""
    return [f"aks-general-31415926-vmss{_base36(index):0>6}" for index in range(count)]


def _base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return (_base36(number // 36) if number >= 36 else "") + digits[number % 36]


def readings(nodes: Sequence[str], metric: str) -> dict[str, float]:
    """One value for each node, no two of them alike."""
    rng = random.Random(metric)
    ranks = list(range(len(nodes)))
    rng.shuffle(ranks)
    return {
        node: round(100 * (rank + 0.5) / len(nodes), 4)
        for node, rank in zip(nodes, ranks, strict=True)
    }


def violating(values: Mapping[str, float], limit: int = LIMIT) -> frozenset[str]:
    """The nodes that a pod of `POD_POLICY` must not go to, by the readings of the first metric."""
    return frozenset(node for node, value in values.items() if value > limit)


def scores(values: Mapping[str, float], asked: Sequence[str]) -> dict[str, int]:
    """How good these nodes are, by the readings of the second metric, none alike: 10 for the lowest down to 0."""
    ranked = sorted(asked, key=lambda node: values[node])
    last = len(ranked) - 1
    if last <= 10:
        return {node: 10 - rank for rank, node in enumerate(ranked)}
    return {node: 10 - (rank * 10 + last // 2) // last for rank, node in enumerate(ranked)}


def policies(count: int) -> list[Object]:
    """Each with rules on two metrics; every third one has nodes labelled and emptied, every fourth gives labels of its own."""
    return [policy(number) for number in range(count)]


def policy(number: int, *, limit: int = LIMIT) -> Object:
    """One of them; `limit` is that of its dontschedule strategy."""
    first, second = (METRICS[(number + step) % len(METRICS)] for step in (0, 1))
    strategies: dict[str, Any] = {
        "dontschedule": {"rules": [_rule(first, "GreaterThan", limit)]},
        "scheduleonmetric": {"rules": [_rule(second, "LessThan", 0)]},
    }
    if number % 3 == 0:
        strategies["deschedule"] = {"rules": [_rule(first, "GreaterThan", 99)]}
    if number % 4 == 0:
        strategies["labeling"] = {
            "rules": [_rule(second, "GreaterThan", 99) | {"labels": ["busy=yes"]}]
        }
    return {
        "apiVersion": "telemetry.intel.com/v1alpha1",
        "kind": "TASPolicy",
        "metadata": {"name": f"policy-{number:03}", "namespace": NAMESPACE},
        "spec": {"strategies": strategies},
    }


def _rule(metric: str, relation: str, target: int) -> Object:
    return {"metricname": metric, "operator": relation, "target": target}

"""Data of /explain for nodes: which policies each violates, and one node with every policy and reading."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from evaluator.model.node_index import NodeIndex
from evaluator.model.objects import Node
from evaluator.model.steps import Steps
from evaluator.plans.explain import ShownReading, readings_of
from evaluator.policy.decide import Decisions
from evaluator.policy.types import StrategyName
from evaluator.policy.violations import some_reasons
from evaluator.readings.merged import Readings

_NAMED = 10
"""Policies named for each node in the list; the others are counted."""


def nodes(decisions: Decisions) -> Steps[Iterator[tuple[str, dict[str, Any]]]]:
    """Return all nodes, evaluated lazily, with the policies that they violate and the labels that they should have."""
    names = decisions.table.nodes
    violated: dict[int, dict[str, list[str]]] = {}
    counts = np.zeros(len(names), dtype=np.int64)
    for key, decision in decisions.policies.items():
        for strategy, state in decision.states.items():
            if strategy is StrategyName.LABELING:
                continue
            positions = state.found.violated.nonzero()[0]
            counts[positions] += 1
            for position in positions.tolist():
                found = violated.setdefault(position, {})
                if len(found) < _NAMED or str(key) in found:
                    found.setdefault(str(key), []).append(strategy.value)
            yield
    return _listed(decisions, violated, counts.tolist())


def _listed(
    decisions: Decisions, violated: dict[int, dict[str, list[str]]], counts: list[int]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for position, name in enumerate(decisions.table.nodes):
        found = violated.get(position, {})
        more = counts[position] - sum(map(len, found.values()))
        yield (
            name,
            {
                "violates": found,
                **({"violatesMore": more} if more else {}),
                "labels": dict(decisions.labels.get(name, {})),
            },
        )


def node(
    name: str, decisions: Decisions, readings: Readings, *, now: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each policy with its verdict on one node, at `now` (seconds, the store's clock)."""
    one, position = NodeIndex([name]), decisions.table.nodes.position[name]
    among = np.zeros(len(decisions.table.nodes), dtype=bool)
    among[position] = True
    known: dict[str, ShownReading] = {}
    for key, decision in decisions.policies.items():
        for metric in decision.policy.metrics - known.keys():
            (known[metric],) = readings_of(readings.column(metric, one, now))
        yield (
            str(key),
            {
                "mode": "observe" if decision.policy.observed else "enforce",
                **{
                    strategy.value: some_reasons(reasons, among, decisions.table.nodes).get(name)
                    for strategy, reasons in decision.violations.items()
                },
                "awaited": name in decision.unreported,
                "labels": dict(decision.labels.get(name, {})),
                "readings": {
                    metric: known[metric].as_json(now) for metric in sorted(decision.policy.metrics)
                },
            },
        )


def head(name: str, found: Node | None, decisions: Decisions) -> dict[str, Any]:
    """Return the node itself: whether it is ready, and the labels that enforced policies set."""
    return {
        "node": name,
        "ready": found.ready_status if found else None,
        "cordoned": found.spec.unschedulable if found else None,
        "labels": dict(decisions.labels.get(name, {})),
    }

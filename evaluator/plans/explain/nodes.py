"""Data of /explain for nodes: which policies each violates, and one node with every policy and reading."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from evaluator.model.node import Node
from evaluator.model.node_index import Mask, NodeIndex
from evaluator.model.steps import Steps
from evaluator.plans.explain.readings import ShownReading, readings_of
from evaluator.policy.decide import Decisions
from evaluator.policy.label_sets import assignments_of
from evaluator.policy.types import StrategyName
from evaluator.policy.violations import some_reasons
from evaluator.readings.merged import Readings

_NAMED = 10
"""Violations, and labels, named for each node in the list; the others are counted."""


class _ByNode:
    """Up to `_NAMED` entries for each node, and how many there are."""

    def __init__(self, size: int) -> None:
        self._counts = np.zeros(size, dtype=np.int64)
        self._named: dict[int, list[tuple[str, str]]] = {}

    def add(self, where: Mask, name: str, value: str) -> None:
        """Add an entry to some nodes."""
        positions = where.nonzero()[0]
        for position in positions[self._counts[positions] < _NAMED].tolist():
            self._named.setdefault(position, []).append((name, value))
        self._counts[positions] += 1

    def of(self, position: int) -> list[tuple[str, str]]:
        """Return the entries of a node."""
        return self._named.get(position, [])

    def more(self, position: int) -> int:
        """Return how many entries of a node are not named."""
        return int(self._counts[position]) - len(self.of(position))


def nodes(decisions: Decisions) -> Steps[Iterator[tuple[str, dict[str, Any]]]]:
    """Return all nodes, evaluated lazily, with the policies that they violate and the labels that they should have."""
    size = len(decisions.table.nodes)
    violated, labelled = _ByNode(size), _ByNode(size)
    for key, decision in decisions.policies.items():
        for strategy, state in decision.states.items():
            if strategy is not StrategyName.LABELING:
                violated.add(state.found.violated, str(key), strategy.value)
                yield
    for label, value, where in assignments_of(decisions.labels).assignments:
        labelled.add(where.mask, label, value)
        yield
    return _listed(decisions, violated, labelled)


def _listed(
    decisions: Decisions, violated: _ByNode, labelled: _ByNode
) -> Iterator[tuple[str, dict[str, Any]]]:
    for position, name in enumerate(decisions.table.nodes):
        policies: dict[str, list[str]] = {}
        for policy, strategy in violated.of(position):
            policies.setdefault(policy, []).append(strategy)
        more = {
            field: left
            for field, left in (
                ("violatesMore", violated.more(position)),
                ("labelsMore", labelled.more(position)),
            )
            if left
        }
        yield name, {"violates": policies, "labels": dict(labelled.of(position)), **more}


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
                "labels": assignments_of(decision.labels).at(position),
                "readings": {
                    metric: known[metric].as_json(now) for metric in sorted(decision.policy.metrics)
                },
            },
        )


def head(name: str, found: Node | None, decisions: Decisions) -> dict[str, Any]:
    """Return the node itself: whether it is ready, and the labels that enforced policies set."""
    position = decisions.table.nodes.position[name]
    return {
        "node": name,
        "ready": found.ready_status if found else None,
        "cordoned": found.spec.unschedulable if found else None,
        "labels": assignments_of(decisions.labels).at(position),
    }

"""Data of the page `/nodes`: the nodes that differ, by their worst state over all policies."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evaluator.core.model.node import Node
from evaluator.core.model.node_index import Positions
from evaluator.core.model.steps import Steps
from evaluator.core.policy.decide import Decisions
from evaluator.features.pages.explain import nodes as explain_nodes
from evaluator.features.pages.explain import states
from evaluator.features.pages.explain.states import Codes, NodeState


def worst(decisions: Decisions) -> Steps[Codes]:
    """Return the worst state of each node over all policies, in steps."""
    codes = np.zeros(len(decisions.table.nodes), np.uint8)
    for decision in decisions.policies.values():
        own = yield from states.states_of(decision, decisions.table)
        np.maximum(codes, own, out=codes)
    return codes


def rows(
    decisions: Decisions, codes: Codes, shown: Positions, cached: Mapping[str, Node]
) -> Steps[list[tuple[str, dict[str, Any]]]]:
    """Return the nodes at some positions, in this order."""
    names = decisions.table.nodes
    among = np.zeros(len(names), dtype=bool)
    among[shown] = True
    listed = yield from explain_nodes.nodes(decisions, among)
    found = {}
    for name, one in listed:
        found[name] = one
        yield
    order: Sequence[str] = [names[position] for position in shown.tolist()]
    return [
        (
            name,
            {
                "state": NodeState(int(codes[names.position[name]])).word,
                **_about(cached.get(name)),
                **found[name],
            },
        )
        for name in order
    ]


def _about(node: Node | None) -> dict[str, Any]:
    return {
        "ready": node.ready_status if node else None,
        "cordoned": node.spec.unschedulable if node else None,
    }

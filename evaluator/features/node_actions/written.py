"""The taints and conditions that Plimsoll set on a node, as the node has them now."""

from typing import Any

from evaluator.core.model.node import Node
from evaluator.core.policy.types import Policy
from evaluator.features.node_actions import names
from evaluator.features.node_actions.annotations import CONDITION, TAINT, TaintsAndConditions
from evaluator.features.node_actions.conditions import own_conditions
from plimsoll import rfc3339


def of_node(node: Node | None, prefixes: tuple[str, ...]) -> dict[str, Any]:
    """Return all taints (with one of our key prefixes) and conditions of a node that are ours."""
    if node is None:
        return {"taints": [], "conditions": []}
    taints = [taint for taint in node.spec.taints or () if taint.key.startswith(prefixes)]
    return {
        "taints": [
            {"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in taints
        ],
        "conditions": [
            {
                "type": kind,
                "status": condition.status,
                "reason": condition.reason,
                "since": None if condition.since is None else rfc3339.seconds(condition.since),
            }
            for kind, condition in sorted(own_conditions(node).items())
        ],
    }


def of_policy(node: Node | None, policy: Policy, prefixes: tuple[str, ...]) -> dict[str, Any]:
    """Return the part of it that one policy caused: its taint and its condition."""
    written = of_node(node, prefixes)
    actions, suffix = policy.actions.part(TaintsAndConditions), names.taint_suffix(policy.key)
    keys = {prefix + suffix for prefix in prefixes} if TAINT in actions.kinds else set()
    kind = actions.condition if CONDITION in actions.kinds else None
    return {
        "taints": [taint for taint in written["taints"] if taint["key"] in keys],
        "conditions": [one for one in written["conditions"] if one["type"] == kind],
    }

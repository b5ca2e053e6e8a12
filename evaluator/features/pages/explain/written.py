"""What Plimsoll wrote to a node, as the node has it now: labels, taints and conditions."""

from collections.abc import Collection
from typing import Any

from evaluator.core.model.node import Node
from evaluator.core.policy.actions import names
from evaluator.core.policy.actions.types import Action
from evaluator.core.policy.types import Policy
from evaluator.features.node_actions.conditions import own_conditions
from plimsoll import rfc3339


def of_node(node: Node | None, prefixes: tuple[str, ...]) -> dict[str, Any]:
    """Return all labels, taints (with one of our key prefixes) and conditions of a node that are ours."""
    if node is None:
        return {"labels": {}, "taints": [], "conditions": []}
    taints = [taint for taint in node.spec.taints or () if taint.key.startswith(prefixes)]
    return {
        "labels": dict(sorted(node.node_labels.ours.items())),
        "taints": [
            {"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in taints
        ],
        "conditions": [
            {
                "type": kind,
                "status": found.status,
                "reason": found.reason,
                "since": rfc3339.seconds(found.since) if found.since is not None else None,
            }
            for kind, found in sorted(own_conditions(node).items())
        ],
    }


def of_policy(
    node: Node | None, policy: Policy, labels: Collection[str], prefixes: tuple[str, ...]
) -> dict[str, Any]:
    """Return the part of it that one policy caused: its `labels` by key, its taint and its condition."""
    found = of_node(node, prefixes)
    actions, suffix = policy.actions, names.taint_suffix(policy.key)
    keys = {prefix + suffix for prefix in prefixes} if Action.TAINT in actions.kinds else set()
    kind = actions.condition if Action.CONDITION in actions.kinds else None
    own = {policy.key.name, *labels}
    return {
        "labels": {key: value for key, value in found["labels"].items() if key in own},
        "taints": [taint for taint in found["taints"] if taint["key"] in keys],
        "conditions": [one for one in found["conditions"] if one["type"] == kind],
    }

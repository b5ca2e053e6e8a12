"""Reads from a node what shows that it violated a policy before this process started."""

from evaluator.core.model.node import Node
from evaluator.core.policy.actions import names
from evaluator.features.node_actions.conditions import own_conditions


def records(node: Node, prefixes: tuple[str, ...]) -> dict[str, str]:
    """Return our labels, taints and conditions of a node, by label key or record."""
    found = node.node_labels.ours
    for taint in node.spec.taints or ():
        for prefix in prefixes:
            if taint.key.startswith(prefix):
                suffix = taint.key.removeprefix(prefix)
                found[names.taint_record(suffix, taint.effect)] = taint.value
    for kind, condition in own_conditions(node).items():
        found[names.condition_record(kind)] = f"{condition.status}/{condition.reason}"
    return found

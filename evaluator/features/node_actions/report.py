"""What a policy's status and Events say about the limit of its actions on nodes, and about conditions of others."""

from collections.abc import Mapping

from evaluator.core.model.events import EventSpec
from evaluator.core.model.node_index import Mask, NodeIndex
from evaluator.features.node_actions.types import PolicyActions
from evaluator.features.status.conditions import PolicyCondition, listed
from plimsoll.text import counted, printable

_MOST_MANAGERS = 3
"""Field managers that the conflicts of a policy name; the others are counted."""

NODE_LIMIT_REACHED = "NodeLimitReached"
"""Condition type of a policy that would act on more nodes than it may."""

LIMIT_REACHED = EventSpec(
    "Warning",
    "NodeLimitReached",
    "more nodes violate the policy than it may act on: no further node gets a hard taint or loses pods; "
    f"the condition {NODE_LIMIT_REACHED} has the numbers",
)
LIMIT_CLEARED = EventSpec(
    "Normal", "NodeLimitCleared", "the policy acts on all nodes that violate it again"
)


def limit_conditions(actions: PolicyActions | None) -> tuple[PolicyCondition, ...]:
    """Return the condition about the limit; empty if none applies to the policy."""
    if actions is None or actions.choice is None:
        return ()
    acted, held_back = actions.acted, actions.held_back
    if not held_back:
        message = f"acts on {counted(acted, 'node')}, at most {actions.limit}"
        return (PolicyCondition(NODE_LIMIT_REACHED, "False", "WithinLimit", message),)
    by_cluster = actions.choice.by_cluster
    limit = (
        "--maxActedNodes of all policies together"
        if by_cluster
        else f"plimsoll.io/max-nodes, {actions.limit} of {actions.of} that it can match"
    )
    reason = "MaxActedNodesReached" if by_cluster else "MaxNodesReached"
    message = f"acts on {counted(acted, 'node')} and not on {held_back} more: the limit is {limit}"
    return (PolicyCondition(NODE_LIMIT_REACHED, "True", reason, message),)


def condition_conflicts(kind: str, owners: Mapping[str, Mask], nodes: NodeIndex) -> list[str]:
    """Return a sentence for each field manager that owns a policy's condition on some nodes. `owners`: these nodes."""
    found = []
    for manager in sorted(owners)[:_MOST_MANAGERS]:
        where = listed(nodes.at(owners[manager]), len(nodes))
        owner = f"field manager {printable(manager)}" if manager else "another reporter"
        found.append(f"condition {kind} on {where} is owned by {owner}: not set")
    if (more := len(owners) - _MOST_MANAGERS) > 0:
        found.append(
            f"condition {kind} is owned by {counted(more, 'other field manager')}: not set"
        )
    return found

"""What a policy's status and Events say about the limit of its actions on nodes."""

from evaluator.core.model.events import EventSpec
from evaluator.features.node_actions.types import PolicyActions
from evaluator.features.status.conditions import PolicyCondition
from plimsoll.text import counted

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

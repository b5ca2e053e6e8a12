"""What a policy's status and Events say about its actions on nodes: problems, the limit, and what enforcing it changes."""

from collections.abc import Iterator, Mapping

from evaluator.core.model.events import EventSpec
from evaluator.core.model.node_index import Mask, NodeIndex, union
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.strategies import COMPLIANCE
from evaluator.core.policy_status import (
    Effect,
    Effects,
    Episode,
    PolicyCondition,
    PolicyPart,
    listed,
)
from evaluator.features.node_actions.annotations import CONDITION, TAINT, TaintsAndConditions
from evaluator.features.node_actions.limit import CLUSTER_LIMIT, NodeLimit, matchable
from evaluator.features.node_actions.types import PolicyActions
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
_LIMITED = Episode(NODE_LIMIT_REACHED, LIMIT_REACHED, LIMIT_CLEARED)


def part(actions: PolicyActions | None, undone: tuple[str, ...] = ()) -> PolicyPart:
    """Return what the status and Events of a policy say about its actions; None: it has none. `undone`: by other clients."""
    held_back = actions is not None and actions.held_back > 0
    return PolicyPart(
        problems=actions.problems if actions else (),
        varying_problems=(*(actions.conflicts if actions else ()), *undone),
        conditions=limit_conditions(actions),
        episodes={_LIMITED: held_back},
    )


class ActionEffects(Effects):
    """The nodes that a policy would taint, within its limits, and set a condition on.

    Nodes with a hard action of other policies do not count here.
    """

    def __init__(self, most: NodeLimit = CLUSTER_LIMIT) -> None:
        """`most`: the limit of all policies together."""
        self._most = most

    def effects(self, decision: Decision, table: MetricTable) -> Iterator[Effect]:
        """Yield the effects of enforcing a policy now."""
        actions = decision.policy.actions.part(TaintsAndConditions)
        if not actions.kinds:
            return
        states = (decision.states[name] for name in COMPLIANCE if name in decision.states)
        violating = union((state.found.violated for state in states), table.nodes)
        names = table.nodes.names_at(violating)
        if TAINT in actions.kinds:
            limit = self._limit(actions, decision, violating, table)
            tainted = names[:limit]  # all begin to violate it when it is enforced: by name
            phrase = f"taint {listed(tainted, len(table.nodes))} with {actions.effect}"
            if more := len(names) - len(tainted):
                phrase += f" ({more} more over the limit of {actions.limit})"
            yield Effect("nodesTainted", phrase, tainted)
        if CONDITION in actions.kinds:
            nodes = listed(names, len(table.nodes))
            yield Effect("nodesWithCondition", f"set {actions.condition} on {nodes}", names)

    def _limit(
        self, actions: TaintsAndConditions, decision: Decision, violating: Mask, table: MetricTable
    ) -> int:
        """Return how many nodes may get the taint at most."""
        nodes = len(table.nodes)
        if not actions.effect.hard and not actions.limits_all:
            return nodes
        limit = actions.limit.among(matchable(decision, violating, table))
        return min(limit, self._most.among(nodes)) if actions.effect.hard else limit


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
    sentences = []
    for manager in sorted(owners)[:_MOST_MANAGERS]:
        where = listed(nodes.names_at(owners[manager]), len(nodes))
        owner = f"field manager {printable(manager)}" if manager else "another reporter"
        sentences.append(f"condition {kind} on {where} is owned by {owner}: not set")
    if (more := len(owners) - _MOST_MANAGERS) > 0:
        sentences.append(
            f"condition {kind} is owned by {counted(more, 'other field manager')}: not set"
        )
    return sentences

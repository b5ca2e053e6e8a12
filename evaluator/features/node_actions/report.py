"""What a policy's status and Events say about its actions on nodes: problems, the limit, and what enforcing it changes."""

from collections.abc import Iterator, Mapping, Sequence

from evaluator.core.model.events import EventSpec
from evaluator.core.model.node_index import Mask, NodeIndex, union
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.strategies import COMPLIANCE
from evaluator.core.report import Effect, Effects, Episode, PolicyCondition, PolicyPart, listed
from evaluator.features.node_actions.annotations import CONDITION, TAINT, TaintsAndConditions
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


def part(actions: PolicyActions | None) -> PolicyPart:
    """Return what the status and Events of a policy say about its actions; None: it has none."""
    held_back = actions is not None and actions.held_back > 0
    return PolicyPart(
        problems=actions.problems if actions else (),
        varying_problems=actions.conflicts if actions else (),
        conditions=limit_conditions(actions),
        episodes={_LIMITED: held_back},
    )


class ActionEffects(Effects):
    """The nodes that a policy would taint, and set a condition on. Limits are not applied."""

    def of(self, decision: Decision, table: MetricTable) -> Iterator[Effect]:
        """Yield the effects of enforcing a policy now."""
        actions = decision.policy.actions.part(TaintsAndConditions)
        acted = _violating_nodes(decision, table) if actions.kinds else ()
        nodes = listed(acted, len(table.nodes))
        if TAINT in actions.kinds:
            phrase = f"taint {nodes} with {actions.effect}, within the limit of {actions.limit}"
            yield Effect("nodesTainted", phrase, acted)
        if CONDITION in actions.kinds:
            yield Effect("nodesWithCondition", f"set {actions.condition} on {nodes}", acted)


def _violating_nodes(decision: Decision, table: MetricTable) -> Sequence[str]:
    """Return the nodes that violate the policy, which taints and conditions are set on."""
    states = (decision.states[name] for name in COMPLIANCE if name in decision.states)
    return table.nodes.at(union((state.found.violated for state in states), table.nodes))


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
        where = listed(nodes.at(owners[manager]), len(nodes))
        owner = f"field manager {printable(manager)}" if manager else "another reporter"
        sentences.append(f"condition {kind} on {where} is owned by {owner}: not set")
    if (more := len(owners) - _MOST_MANAGERS) > 0:
        sentences.append(
            f"condition {kind} is owned by {counted(more, 'other field manager')}: not set"
        )
    return sentences

"""What a policy's status and Events say about nodes that differ from their peers but are not accused: too many do."""

from evaluator.core.model.events import EventSpec
from evaluator.core.model.node_index import union
from evaluator.core.policy.decide import Decision
from evaluator.core.report import Episode, PolicyCondition, PolicyPart, listed

PEERS_HELD_BACK = "PeersHeldBack"
"""Condition type of a policy with rules on peers."""
_HELD_BACK = Episode(
    PEERS_HELD_BACK,
    EventSpec(
        "Warning",
        PEERS_HELD_BACK,
        "more than a tenth of a group differs from its peers: only the farthest nodes violate the policy; "
        f"the condition {PEERS_HELD_BACK} names the others",
    ),
    EventSpec(
        "Normal", "PeersAccused", "every node that differs from its peers violates the policy"
    ),
)


def part(decision: Decision) -> PolicyPart:
    """Return the condition and the Events of a policy with rules on peers; nothing of others."""
    if not decision.policy.peer_metrics:
        return PolicyPart()
    masks = [one for state in decision.states.values() for one in state.held_back.values()]
    if not masks:
        text = "every node that differs from its peers violates the policy"
        condition = PolicyCondition(PEERS_HELD_BACK, "False", "WithinLimit", text)
        return PolicyPart(conditions=(condition,), episodes={_HELD_BACK: False})
    nodes = masks[0].nodes
    names = nodes.at(union((one.mask for one in masks), nodes))
    text = f"{listed(names, len(nodes))} differ from their peers and are not accused: more than a tenth of a group does"
    condition = PolicyCondition(PEERS_HELD_BACK, "True", "TooManyDiffer", text)
    return PolicyPart(conditions=(condition,), episodes={_HELD_BACK: True})

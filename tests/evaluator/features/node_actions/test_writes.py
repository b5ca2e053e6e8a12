"""What was written to a node, and which policy caused it."""

from dataclasses import replace

import pytest

from evaluator.core.model.node import (
    ConditionOwner,
    Node,
    NodeCondition,
    NodeMeta,
    NodeSpec,
    NodeStatus,
    Taint,
)
from evaluator.core.policy.types import LABEL, Actions
from evaluator.features.node_actions import writes
from evaluator.features.node_actions.annotations import CONDITION, TAINT, TaintsAndConditions
from evaluator.features.node_actions.page import WrittenActionsFields, WrittenCondition

PREFIXES = ("plimsoll.io/",)


@pytest.fixture
def node():
    meta = NodeMeta(
        name="a",
        labels={"demo": "violating", "other": "violating", "theirs": "x"},
        owned_labels=frozenset({"demo", "other"}),
        condition_owners=(("plimsoll.io/Demo", (ConditionOwner("plimsoll", applied=True),)),),
    )
    taints = [
        Taint("plimsoll.io/ns.demo", "violating", "NoSchedule"),
        Taint("plimsoll.io/ns.other", "violating", "NoSchedule"),
        Taint("theirs", "", "NoExecute"),
    ]
    conditions = (
        NodeCondition("Ready", "True"),
        NodeCondition("plimsoll.io/Demo", "True", "DescheduleViolated", 0.0),
    )
    return Node(meta, NodeSpec(taints=taints), NodeStatus(conditions))


def test_only_what_is_ours_is_shown(node):
    found = writes.set_on_node(node, PREFIXES)
    assert [one.key for one in found.taints] == [
        "plimsoll.io/ns.demo",
        "plimsoll.io/ns.other",
    ]
    assert found.conditions == [
        WrittenCondition(
            "plimsoll.io/Demo", "True", "DescheduleViolated", since="1970-01-01T00:00:00Z"
        )
    ]


def test_a_policy_shows_its_own_part(node, parsed):
    taken = TaintsAndConditions(frozenset({TAINT, CONDITION}), condition="plimsoll.io/Demo")
    actions = Actions(frozenset({LABEL, TAINT, CONDITION}), (taken,))
    policy = replace(parsed("demo"), actions=actions)
    found = writes.set_by_policy(node, policy, PREFIXES)
    assert [one.key for one in found.taints] == ["plimsoll.io/ns.demo"]
    assert [one.type for one in found.conditions] == ["plimsoll.io/Demo"]
    labels_only = replace(policy, actions=Actions())
    assert writes.set_by_policy(node, labels_only, PREFIXES).taints == []


def test_nothing_is_written_to_a_node_that_is_gone(parsed):
    nothing = WrittenActionsFields(taints=[], conditions=[])
    assert writes.set_on_node(None, PREFIXES) == nothing
    assert writes.set_by_policy(None, parsed("demo"), PREFIXES) == nothing

"""The annotations of a policy that name its actions on nodes."""

import pytest

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy import parse
from evaluator.core.policy.decide import decide
from evaluator.core.policy.types import LABEL
from evaluator.core.readings.store import Store
from evaluator.features.node_actions import names
from evaluator.features.node_actions.annotations import (
    CONDITION,
    TAINT,
    TaintEffect,
    TaintsAndConditions,
)
from evaluator.features.node_actions.limit import DEFAULT_LIMIT, NodeLimit, node_limit
from evaluator.features.registry import VOCABULARY
from tests.evaluator.conftest import make_rule, make_tas


def policy(*, strategy="deschedule", **annotations):
    made = make_tas("disk-errors", **{strategy: [make_rule("health Equals 1", "a=b")]})
    found = {f"plimsoll.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    made["metadata"]["annotations"] = found
    return parse.parse(made, vocabulary=VOCABULARY)


def part(made):
    return made.actions.part(TaintsAndConditions)


def test_policy_without_annotations_sets_labels_only():
    made = policy()
    assert made.actions.kinds == {LABEL}
    assert not made.problems


def test_actions_are_a_list():
    made = policy(actions="taint, condition")
    assert made.actions.kinds == {TAINT, CONDITION}
    assert part(made).effect is TaintEffect.PREFER_NO_SCHEDULE
    assert part(made).condition == "plimsoll.io/DiskErrors"
    assert part(made).limit == DEFAULT_LIMIT
    assert not made.problems


def test_empty_list_means_no_action():
    assert policy(actions="").actions.kinds == frozenset()


def test_all_annotations_are_read():
    made = policy(
        actions="label,taint,condition",
        taint_effect="NoExecute",
        condition_type="example.com/DiskBroken",
        max_nodes="3",
    )
    assert part(made).effect is TaintEffect.NO_EXECUTE
    assert part(made).condition == "example.com/DiskBroken"
    assert part(made).limit == NodeLimit(3)
    assert not made.problems


@pytest.mark.parametrize(
    ("annotations", "without", "problem"),
    [
        (
            {"actions": "taint,cordon"},
            None,
            "annotation plimsoll.io/actions: 'cordon' is unknown (one of label, taint, condition): left out",
        ),
        (
            {"actions": "taint", "taint_effect": "NoRun"},
            TAINT,
            "annotation plimsoll.io/taint-effect: 'NoRun' is unknown (one of PreferNoSchedule, NoSchedule, NoExecute): no taint is set",
        ),
        (
            {"actions": "condition,taint", "condition_type": "Ready"},
            CONDITION,
            "annotation plimsoll.io/condition-type: Ready is a condition of Kubernetes: no condition is set; write it like "
            "plimsoll.io/MemoryContended",
        ),
        (
            {"actions": "taint", "max_nodes": "a few"},
            None,
            "annotation plimsoll.io/max-nodes: 'a few' is neither a number of nodes (5) nor a percentage (20%): no further "
            "node is tainted or emptied until it is valid",
        ),
    ],
)
def test_invalid_annotation_disables_its_action_and_is_a_problem(annotations, without, problem):
    made = policy(**annotations)
    assert made.problems == (problem,)
    assert without not in made.actions.kinds


def test_invalid_limit_permits_no_node():
    assert part(policy(actions="taint", max_nodes="-1")).limit.among(100) == 0


def test_actions_on_nodes_need_a_strategy_that_can_be_violated():
    made = policy(strategy="labeling", actions="label,taint")
    assert made.actions.kinds == {LABEL}
    assert "neither dontschedule nor deschedule" in made.problems[0]


def test_policy_without_label_sets_none():
    store = Store(stale_after=30.0, started=0.0)
    for strategy in ("deschedule", "labeling"):
        made = policy(strategy=strategy, actions="" if strategy == "labeling" else "taint")
        assert not decide([made], ["a"], store, now=0.0).policies[made.key].labels


@pytest.mark.parametrize(
    ("text", "nodes", "limit"), [("20%", 3, 1), ("20%", 0, 0), ("20%", 100, 20), ("5", 3, 5)]
)
def test_percentage_is_rounded_up(text, nodes, limit):
    assert node_limit(text).among(nodes) == limit


@pytest.mark.parametrize("text", ["", "%", "101%", "-1", "1.5", "nan%", "1e99", "inf"])
def test_invalid_limit_is_refused(text):
    with pytest.raises(ValueError, match="neither a number of nodes"):
        node_limit(text)


def test_taint_keys_of_two_policies_differ():
    keys = {
        names.taint_key(names.DOMAIN, PolicyKey(namespace, name))
        for namespace, name in [
            ("a", "b"),
            ("a", "b.c"),
            ("b", "b"),
            ("a", "x" * 80),
            ("a", "x" * 81),
        ]
    }
    assert len(keys) == 5
    assert "plimsoll.io/a.b" in keys
    assert all(len(key.partition("/")[2]) <= 63 for key in keys)


def test_taint_prefix_for_cluster_autoscaler():
    prefix = names.taint_prefix("status-taint.cluster-autoscaler.kubernetes.io/plimsoll-")
    key = names.taint_key(prefix, PolicyKey("ns", "demo"))
    assert key == "status-taint.cluster-autoscaler.kubernetes.io/plimsoll-ns.demo"


@pytest.mark.parametrize(
    "text",
    ["plimsoll", "node.kubernetes.io/", "Plimsoll!/", "/plimsoll", "a.b/plimsoll-" + "x" * 20],
)
def test_prefix_of_others_taints_is_refused(text):
    with pytest.raises(ValueError, match="not a prefix"):
        names.taint_prefix(text)

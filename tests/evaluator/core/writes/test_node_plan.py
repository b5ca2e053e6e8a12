"""The incremental plan of writes equals a plan from scratch, for any order of events."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core.model import node_labels
from evaluator.core.model.node_index import NodeIndex, NodeMask
from evaluator.core.model.node_labels import LabelApply, NodeLabels
from evaluator.core.policy.label_sets import LabelAssignment, LabelAssignments
from evaluator.core.writes.node_plan import KEPT, NodePlan
from tests.evaluator.core.writes.from_scratch import label_writes
from tests.examples import examples

NODES = ("node-a", "node-b")
nodes = st.sampled_from(NODES)
keys = st.sampled_from(["p", "q"])
labellings = st.dictionaries(keys, st.sampled_from(["v", "w"]))
seen = st.builds(NodeLabels, st.sampled_from(["u", "w"]), labellings, st.frozensets(keys))
events = st.one_of(
    st.tuples(st.just("node"), nodes, st.none() | seen),
    st.tuples(st.just("want"), st.dictionaries(nodes, labellings), st.none()),
    st.tuples(st.just("step"), st.integers(1, 2), st.none()),
)


PLACES = NodeIndex(NODES)


def decided(wanted):
    """Wanted labels as in decisions: by label."""
    labels = sorted({label for asked in wanted.values() for label in asked.items()})
    return LabelAssignments(
        PLACES,
        [
            LabelAssignment(
                key,
                value,
                NodeMask(PLACES, np.array([wanted.get(n, {}).get(key) == value for n in PLACES])),
            )
            for key, value in labels
        ],
    )


def write(node, current, desired):
    return node_labels.compare(node, current, desired).apply


def finish(plan, there):
    while plan.pending:
        plan.step(there.get, 2)


@pytest.mark.parametrize("form", [dict, decided], ids=["by node", "by label"])
@settings(max_examples=examples(60))
@given(st.fixed_dictionaries(dict.fromkeys(NODES, seen)), st.lists(events, max_size=12))
def test_incremental_plan_equals_plan_from_scratch(form, there, happened):
    plan, wanted = NodePlan(write), {}
    for node in there:
        plan.changed(node)
    for what, subject, more in happened:
        match what:
            case "node":
                there |= {subject: more}
                plan.changed(subject)
            case "want":
                wanted = subject
                plan.set_desired(form(wanted))
            case "step":
                assert len(plan.step(there.get, subject)) <= subject
    finish(plan, there)
    known = {node: found for node, found in there.items() if found}
    applies, _ = label_writes(known, wanted)
    assert plan.writes == {apply.node: apply for apply in applies}


@pytest.fixture
def settled():
    """A plan for two nodes of which one is still to be written; and the nodes."""
    plan, there = (
        NodePlan(write),
        {n: NodeLabels("u", {}, frozenset()) for n in ("node-a", "node-b")},
    )
    for node in there:
        plan.changed(node)
    plan.set_desired({"node-a": {"p": "v"}})
    finish(plan, there)
    return plan, there


def test_only_changed_nodes_are_planned(settled):
    plan, there = settled
    plan.set_desired({"node-a": {"p": "v"}})
    assert not plan.pending
    plan.set_desired({"node-a": {"p": "v"}, "node-b": {"p": "v"}})
    assert plan.step(there.get, 10) == ["node-b"]
    plan.changed("node-a")
    assert plan.step(there.get, 10) == ["node-a"]
    assert not plan.pending


def test_deleted_node_leaves_the_plan(settled):
    plan, there = settled
    assert plan.writes == {"node-a": LabelApply("node-a", "u", {"p": "v"})}
    del there["node-a"]
    plan.changed("node-a")
    finish(plan, there)
    assert plan.writes == {}


def test_node_of_which_nothing_is_known_keeps_what_it_has(settled):
    plan, there = settled
    plan.set_desired({"node-a": KEPT, "node-b": {"p": "v"}})
    finish(plan, there)
    assert [*plan.writes] == ["node-b"]

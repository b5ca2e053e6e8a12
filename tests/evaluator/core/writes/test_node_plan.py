"""The incremental label plan equals a plan from scratch, for any order of events."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core.model import node_labels
from evaluator.core.model.node_index import NodeIndex, NodeMask
from evaluator.core.model.node_labels import LabelApply, LabelConflict, NodeLabels
from evaluator.core.policy.label_sets import LabelAssignment, LabelAssignments
from evaluator.core.writes.node_plan import NodePlan
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


def finish(plan, there):
    while plan.pending:
        plan.step(there.get, 2)


@pytest.mark.parametrize("form", [dict, decided], ids=["by node", "by label"])
@settings(max_examples=examples(60))
@given(st.fixed_dictionaries(dict.fromkeys(NODES, seen)), st.lists(events, max_size=12))
def test_incremental_plan_equals_plan_from_scratch(form, there, happened):
    plan, wanted, open_conflicts = NodePlan(node_labels.compare), {}, set()
    for node in there:
        plan.changed(node)

    def step(limit):
        told = plan.step(there.get, limit)
        assert len(told.nodes) <= limit
        open_conflicts.difference_update(told.ended)
        assert open_conflicts.isdisjoint(told.began)
        open_conflicts.update(told.began)

    for what, subject, more in happened:
        match what:
            case "node":
                there |= {subject: more}
                plan.changed(subject)
            case "want":
                wanted = subject
                plan.set_desired(form(wanted))
            case "step":
                step(subject)
    while plan.pending:
        step(2)
    known = {node: found for node, found in there.items() if found}
    applies, whole = label_writes(known, wanted)
    assert plan.applies == {apply.node: apply for apply in applies}
    found = [conflict for conflicts in plan.conflicts.values() for conflict in conflicts]
    assert sorted(found, key=repr) == sorted(whole, key=repr)
    assert open_conflicts == set(whole)


@pytest.fixture
def settled():
    """A plan for two nodes of which one is still to be written; and the nodes."""
    plan, there = (
        NodePlan(node_labels.compare),
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
    assert plan.step(there.get, 10).nodes == ["node-b"]
    plan.changed("node-a")
    assert plan.step(there.get, 10).nodes == ["node-a"]
    assert not plan.pending


def test_deleted_node_leaves_the_plan(settled):
    plan, there = settled
    assert plan.applies == {"node-a": LabelApply("node-a", "u", {"p": "v"})}
    del there["node-a"]
    plan.changed("node-a")
    finish(plan, there)
    assert plan.applies == {}


def test_conflict_is_reported_when_it_begins_and_ends(settled):
    plan, there = settled
    there["node-a"] = NodeLabels("u", {"p": "theirs"}, frozenset())
    conflict = LabelConflict("node-a", "p", "v", "theirs")
    plan.changed("node-a")
    assert plan.step(there.get, 10).began == [conflict]
    plan.changed("node-a")
    step = plan.step(there.get, 10)
    assert (step.began, step.ended) == ([], [])
    plan.set_desired({})
    assert plan.step(there.get, 10).ended == [conflict]

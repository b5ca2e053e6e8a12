"""Label assignments agree with dictionaries by node, also when merged."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex, NodeMask, Reindex
from evaluator.core.policy.label_sets import LabelAssignment, LabelAssignments, merged
from plimsoll.steps import finished

NODES = NodeIndex(("a", "b", "c", "d"))
labels = st.dictionaries(st.sampled_from(["k0", "k1"]), st.sampled_from(["v0", "v1"]), max_size=2)
by_node = st.dictionaries(st.sampled_from(NODES), labels, max_size=4)


def assignments(wanted, nodes=NODES):
    """Node → key → value as label assignments."""
    every = {label for own in wanted.values() for label in own.items()}
    return LabelAssignments(
        nodes,
        [
            LabelAssignment(
                k, v, NodeMask(nodes, np.array([wanted.get(n, {}).get(k) == v for n in nodes]))
            )
            for k, v in sorted(every)
        ],
    )


def plain(wanted):
    return {node: dict(own) for node, own in wanted.items() if own}


@given(by_node)
def test_assignments_by_node_equal_the_input(wanted):
    found = assignments(wanted)
    assert plain(found) == found == plain(wanted)
    assert len(found) == len(plain(wanted))
    assert [node in found for node in NODES] == [bool(wanted.get(node)) for node in NODES]


@pytest.mark.parametrize("node", ["b", "never heard of"])
def test_nodes_without_labels_are_absent(node):
    with pytest.raises(KeyError):
        assignments({"a": {"k0": "v0"}})[node]
    assert node not in assignments({"a": {"k0": "v0"}})


def test_thousands_of_nodes_have_labels_of_their_own():
    nodes = NodeIndex(f"n{number}" for number in range(70_000))  # more than a short integer holds
    chosen = np.zeros(len(nodes), dtype=bool)
    chosen[1::100] = chosen[69_999] = True
    found = LabelAssignments(nodes, [LabelAssignment("k", "v", NodeMask(nodes, chosen))])
    assert dict(found) == {nodes[n]: {"k": "v"} for n in [*range(1, 70_000, 100), 69_999]}


@given(by_node, by_node)
def test_changes_are_the_nodes_that_differ(before, after):
    found = assignments(after).changed_since(assignments(before))
    assert list(found) == [n for n in NODES if plain(before).get(n) != plain(after).get(n)]


@given(by_node, by_node)
def test_reused_assignments_are_equal_and_identical_if_unchanged(before, after):
    old, new = assignments(before), assignments(after)
    assert finished(new.reuse(old)) == new
    assert (finished(new.reuse(old)) is old) is (plain(before) == plain(after))
    assert finished(assignments(before).reuse(old)) is old


@given(by_node, st.lists(st.tuples(st.sets(st.sampled_from(NODES)), by_node), max_size=4))
def test_labels_that_were_read_stay_the_same_object_while_equal(first, later):
    old, wanted = assignments(first), first
    for read, changed in later:
        kept = {node: old.get(node) for node in read}
        before, wanted = plain(wanted), {**wanted, **changed}
        old = finished(assignments(wanted).reuse(old))
        for node, labels in kept.items():
            if labels is not None and before[node] == plain(wanted).get(node):
                assert old[node] is labels
        assert old == plain(wanted)


def test_other_nodes_change_all_assignments():
    nodes = NodeIndex(("a", "b"))
    assert list(assignments({}, nodes).changed_since(assignments({}))) == ["a", "b"]


@given(by_node, by_node, st.sets(st.sampled_from(NODES)))
def test_selected_nodes_keep_their_previous_labels(old, new, kept):
    where = np.array([node in kept for node in NODES])
    found = assignments(new).keeping(assignments(old), where, Reindex(NODES, NODES))
    held = {node: own for node, own in plain(old).items() if node in kept}
    assert plain(found) == {**plain(new), **held}


@given(st.lists(by_node, max_size=4))
def test_merged_assignments_equal_merged_dictionaries(wanted):
    """The first policy that sets a key on a node wins; others get a conflict."""
    keys = [PolicyKey("ns", f"p{number}") for number in range(len(wanted))]
    on_nodes, owners, told = {}, {}, {}
    for policy, own in zip(keys, wanted, strict=True):
        for node, key, value in ((n, k, v) for n, of in own.items() for k, v in of.items()):
            if on_nodes.setdefault(node, {}).setdefault(key, value) == value:
                owners.setdefault((node, key), policy)
            else:
                winner = owners[node, key]
                sentence = f"label {key}: policy {winner} sets another value, and it wins"
                told.setdefault(policy, set()).add(sentence)
    found, clashes = finished(merged(list(zip(keys, map(assignments, wanted), strict=True)), NODES))
    assert plain(found) == on_nodes
    assert {policy: set(said) for policy, said in clashes.items()} == told
    assert all(len(said) == len(set(said)) for said in clashes.values())

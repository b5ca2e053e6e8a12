"""Labels as who bears which: read by node they are what dictionaries would be, also after two policies were merged."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.model.names import PolicyKey
from evaluator.model.node_index import NodeIndex, NodeMask, Reindex
from evaluator.model.steps import finished
from evaluator.policy.label_sets import LabelAssignment, LabelAssignments, merged

NODES = NodeIndex(("a", "b", "c", "d"))
labels = st.dictionaries(st.sampled_from(["k0", "k1"]), st.sampled_from(["v0", "v1"]), max_size=2)
by_node = st.dictionaries(st.sampled_from(NODES), labels, max_size=4)


def marks(wanted, nodes=NODES):
    """Node → key → value, as marks."""
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
def test_read_by_node_they_are_what_was_wanted(wanted):
    found = marks(wanted)
    assert plain(found) == found == plain(wanted)
    assert len(found) == len(plain(wanted))
    assert [node in found for node in NODES] == [bool(wanted.get(node)) for node in NODES]


@pytest.mark.parametrize("node", ["b", "never heard of"])
def test_who_bears_nothing_is_not_in_them(node):
    with pytest.raises(KeyError):
        marks({"a": {"k0": "v0"}})[node]
    assert node not in marks({"a": {"k0": "v0"}})


def test_thousands_of_nodes_bear_their_own():
    nodes = NodeIndex(f"n{number}" for number in range(70_000))  # more than a short number holds
    chosen = np.zeros(len(nodes), dtype=bool)
    chosen[[1, 69_999]] = True
    found = LabelAssignments(nodes, [LabelAssignment("k", "v", NodeMask(nodes, chosen))])
    assert dict(found) == {"n1": {"k": "v"}, "n69999": {"k": "v"}}


@given(by_node, by_node)
def test_what_changed_is_what_differs_by_node(before, after):
    found = marks(after).changed_since(marks(before))
    assert list(found) == [n for n in NODES if plain(before).get(n) != plain(after).get(n)]


@given(by_node, by_node)
def test_the_same_again_is_the_same_object_and_says_what_it_said(before, after):
    old, new = marks(before), marks(after)
    assert finished(new.reuse(old)) == new
    assert (finished(new.reuse(old)) is old) is (plain(before) == plain(after))
    assert finished(marks(before).reuse(old)) is old


def test_other_nodes_are_a_change_of_all():
    nodes = NodeIndex(("a", "b"))
    assert list(marks({}, nodes).changed_since(marks({}))) == ["a", "b"]


@given(by_node, by_node, st.sets(st.sampled_from(NODES)))
def test_some_nodes_keep_what_they_bore(old, new, kept):
    where = np.array([node in kept for node in NODES])
    found = marks(new).keeping(marks(old), where, Reindex(NODES, NODES))
    held = {node: own for node, own in plain(old).items() if node in kept}
    assert plain(found) == {**plain(new), **held}


@given(st.lists(by_node, max_size=4))
def test_merged_they_are_what_dictionaries_would_be(wanted):
    """The first policy that sets a key on a node wins; who sets another value there is told by whom."""
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
    found, clashes = finished(merged(list(zip(keys, map(marks, wanted), strict=True)), NODES))
    assert plain(found) == on_nodes
    assert {policy: set(said) for policy, said in clashes.items()} == told
    assert all(len(said) == len(set(said)) for said in clashes.values())

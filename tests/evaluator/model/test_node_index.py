"""Nodes as places in arrays: found by name, named by mask, and followed from one list to the next."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evaluator.model.node_index import NodeIndex, NodeMask, Reindex, alike, union

names = st.lists(st.sampled_from("abcdefgh"), unique=True)


def mask(nodes, chosen):
    return np.array([node in chosen for node in nodes], dtype=bool)


def test_names_are_found_in_the_order_asked_for():
    assert NodeIndex("abc").find(["c", "x", "a", "c"]).tolist() == [2, -1, 0, 2]
    assert NodeIndex("abc").find([]).tolist() == []


def test_a_set_is_named_in_the_order_of_the_nodes():
    found = NodeMask(NodeIndex("abc"), mask("abc", "ca"))
    assert (found.count, found.names, found.members) == (2, ("a", "c"), {"a", "c"})


def test_the_same_set_of_the_same_nodes_is_the_same_object():
    nodes = NodeIndex("abc")
    before = NodeMask(nodes, mask(nodes, "a"))
    assert NodeMask(nodes, mask(nodes, "a")).reuse(before) is before
    for other in (NodeMask(nodes, mask(nodes, "b")), NodeMask(NodeIndex("xyz"), mask("xyz", "x"))):
        assert other.reuse(before) is other
        assert other.reuse(None) is other


@given(names, names, st.sets(st.sampled_from("abcdefgh")))
def test_what_was_known_of_a_node_follows_it_to_its_new_place(before, after, chosen):
    moves = Reindex(NodeIndex(before), NodeIndex(after))
    known = [node in before and node in chosen for node in after]
    assert moves.mask(mask(before, chosen)).tolist() == known
    numbers = moves.values(np.array([float(ord(node)) for node in before]))
    expected = [float(ord(node)) if node in before else np.nan for node in after]
    np.testing.assert_array_equal(numbers, expected)


def test_nobody_moves_while_the_nodes_are_the_same():
    nodes = NodeIndex("abc")
    found = mask(nodes, "b")
    assert Reindex(nodes, nodes).nothing
    assert Reindex(nodes, nodes).mask(found) is found
    assert not Reindex(NodeIndex("abc"), NodeIndex("abd")).nothing


def test_masks_are_alike_if_they_say_the_same_of_as_many():
    one = np.array([[True, False], [False, True]])
    assert alike(one, one.copy())
    assert not alike(one, ~one)
    assert not alike(one, one.reshape(-1))
    assert alike(np.asfortranarray(one), one)


def test_a_union_of_nothing_is_nobody():
    nodes = NodeIndex("abc")
    assert union([], nodes) is nodes.none
    assert union([mask(nodes, "a"), mask(nodes, "c")], nodes).tolist() == [True, False, True]

"""Node positions in arrays: by name, by mask, and across node lists."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.model.node_index import NodeIndex, NodeMask, NodeScores, Reindex, alike, union

names = st.lists(st.sampled_from("abcdefgh"), unique=True)


def mask(nodes, chosen):
    return np.array([node in chosen for node in nodes], dtype=bool)


def test_positions_are_in_the_requested_order():
    assert NodeIndex("abc").find(["c", "x", "a", "c"]).tolist() == [2, -1, 0, 2]
    assert NodeIndex("abc").find([]).tolist() == []


def test_mask_is_named_in_node_order():
    found = NodeMask(NodeIndex("abc"), mask("abc", "ca"))
    assert (found.count, found.names, found.members) == (2, ("a", "c"), {"a", "c"})


def test_equal_masks_of_the_same_nodes_are_one_object():
    nodes = NodeIndex("abc")
    before = NodeMask(nodes, mask(nodes, "a"))
    assert NodeMask(nodes, mask(nodes, "a")).reuse(before) is before
    for other in (NodeMask(nodes, mask(nodes, "b")), NodeMask(NodeIndex("xyz"), mask("xyz", "x"))):
        assert other.reuse(before) is other
        assert other.reuse(None) is other


@given(names, names, st.sets(st.sampled_from("abcdefgh")))
def test_values_move_to_a_nodes_new_position(before, after, chosen):
    moves = Reindex(NodeIndex(before), NodeIndex(after))
    known = [node in before and node in chosen for node in after]
    assert moves.mask(mask(before, chosen)).tolist() == known
    numbers = moves.values(np.array([float(ord(node)) for node in before]))
    expected = [float(ord(node)) if node in before else np.nan for node in after]
    np.testing.assert_array_equal(numbers, expected)


def test_positions_stay_while_the_nodes_are_the_same():
    nodes = NodeIndex("abc")
    found = mask(nodes, "b")
    assert Reindex(nodes, nodes).is_identity
    assert Reindex(nodes, nodes).mask(found) is found
    assert not Reindex(NodeIndex("abc"), NodeIndex("abd")).is_identity


def test_masks_are_equal_by_shape_and_values():
    one = np.array([[True, False], [False, True]])
    assert alike(one, one.copy())
    assert not alike(one, ~one)
    assert not alike(one, one.reshape(-1))
    assert alike(np.asfortranarray(one), one)


def test_union_of_nothing_is_empty():
    nodes = NodeIndex("abc")
    assert union([], nodes) is nodes.none
    assert union([mask(nodes, "a"), mask(nodes, "c")], nodes).tolist() == [True, False, True]


@given(st.lists(st.integers(0, 10), max_size=30), st.randoms(), st.integers(1, 12))
def test_highest_scores_come_first_and_equal_ones_in_node_order(scores, random, most):
    nodes = NodeIndex(f"node-{number:02}" for number in range(len(scores)))
    order = random.sample(range(len(scores)), len(scores))
    given = NodeScores(nodes, np.array(order, np.intp), np.array(scores, np.intp))
    assert [*given.highest(most).pairs()] == sorted(given.pairs(), key=worst)[:most]


def worst(scored):
    name, score = scored
    return -score, name

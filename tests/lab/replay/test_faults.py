"""Precision, recall and time to detection of violations against labelled faults."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.replay.faults import Fault, FaultsError, Violation, detection, joined, read

DAY = 86_400.0


def test_counts_of_right_and_false_violations_and_of_found_faults():
    faults = [Fault("a", 100, 200), Fault("a", 500, 600), Fault("b", 0, 50), Fault("c", 0, 10)]
    violations = [
        Violation("a", 130, 300),  # right, after 30
        Violation("a", 480, 510),  # right: it was there when the fault began
        Violation("b", 50, 60),  # false: the fault is over
        Violation("d", 0, 9),  # false: another node
    ]
    found = detection(violations, faults, node_seconds=4 * DAY)
    assert (found.precision, found.recall, found.f1) == (0.5, 0.5, 0.5)
    assert found.delays == [0.0, 30.0]
    assert found.delay(0.5) == 15.0
    assert found.false_per_1000_node_days == 500.0
    both = found + found
    assert (both.f1, both.node_days, both.faults) == (0.5, 8.0, 8)


def test_without_violations_or_faults_shares_are_unknown_not_perfect():
    nothing = detection([], [], node_seconds=0.0)
    assert all(math.isnan(x) for x in (nothing.precision, nothing.recall, nothing.f1))
    assert detection([], [Fault("a", 0, 1)], node_seconds=DAY).f1 == 0.0
    assert detection([Violation("a", 0, 1)], [], node_seconds=DAY).precision == 0.0


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 50), st.integers(1, 20)), max_size=12)
)
def test_union_covers_the_same_moments_without_overlap(found):
    given_ = [Violation(node, start, start + length) for node, start, length in found]
    union = joined(given_)
    for node in "ab":
        covered = {t for v in given_ if v.node == node for t in range(v.start, v.end)}
        parts = [v for v in union if v.node == node]
        assert {t for v in parts for t in range(v.start, v.end)} == covered
        assert sum(v.end - v.start for v in parts) == len(covered)


def test_file_of_faults():
    lines = ["node,start,end,policy", "a,1970-01-01T00:01:40Z,200,slow", "", "b,5,,"]
    assert read(lines) == [Fault("a", 100, 200, "slow"), Fault("b", 5, math.inf)]


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ([], "line 1: expected the header node,start,end"),
        (["node,begin,end"], "line 1: expected the header"),
        (["node,start,end", "a,1"], "line 2: 2 columns, expected 3"),
        (["node,start,end", "a,yesterday,2"], "line 2: start 'yesterday' is no time"),
        (["node,start,end", "a,nan,2"], "line 2: start 'nan' is no time"),
        (["node,start,end", "a,3,2"], "line 2: the fault ends before it begins"),
        (["node,start,end", "a," + "9" * 5000 + ",2"], "line 2: start '999"),
    ],
)
def test_errors_name_the_line(lines, error):
    with pytest.raises(FaultsError, match="^" + error):
        read(lines)

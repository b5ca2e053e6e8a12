"""Scores 0..10 by rank, as in TAS where valid, and always within the scheduler's range."""

import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.policy import ranking as scheduleonmetric
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.types import Operator, RankBy, Rule
from evaluator.core.readings.store import Store
from wire.codec import Delta

NOW = 100.0


def listed(readings, asked=None, operator="LessThan", *, target=0, silent=()):
    """Scores for node → value; NaN, a list and None are unusable."""
    store = Store(stale_after=10.0, started=0.0)
    store.subscribe(["m"])
    for node, value in readings.items():
        at = NOW - 11 if node in silent else NOW
        if value is None:
            store.report(node, Delta(absent=["m"]), at)
        elif isinstance(value, list):
            store.report(node, Delta(several={"m": len(value)}), at)
        else:
            store.report(node, Delta({"m": float(value)}), at)
    nodes = tuple(sorted(readings))
    table = MetricTable(nodes, {"m": store.column("m", nodes, NOW)})
    ranking = scheduleonmetric.rank(Rule("m", Operator(operator), target), table)
    return ranking.scores(list(nodes) if asked is None else asked)


def scores(readings, operator="LessThan", *, asked=None, **more):
    """Node → score."""
    return dict(listed(readings, asked, operator, **more))


@pytest.mark.parametrize("count", range(1, 12))
def test_up_to_eleven_distinct_nodes_score_ten_minus_rank(count):
    values = random.Random(count).sample(range(1000), count)
    readings = {f"n{position}": value for position, value in enumerate(values)}
    by_rank = sorted(readings, key=readings.__getitem__)
    assert scores(readings) == {node: 10 - rank for rank, node in enumerate(by_rank)}
    assert scores(readings, "GreaterThan") == {
        node: 10 - rank for rank, node in enumerate(reversed(by_rank))
    }


def test_ties_share_a_score_and_use_up_ranks():
    assert scores({"a": 1, "b": 1, "c": 2, "d": 3}) == {"a": 10, "b": 10, "c": 8, "d": 7}


def test_equal_nodes_all_score_highest():
    assert set(scores(dict.fromkeys("abcdefghijklmnop", 5)).values()) == {10}


@pytest.mark.parametrize("operator", ["LessThan", "GreaterThan"])
def test_five_thousand_nodes_are_spread_evenly_over_the_range(operator):
    values = random.Random(5).sample(range(10**6), 5000)
    readings = {f"n{position}": value for position, value in enumerate(values)}
    found = scores(readings, operator)
    count = Counter(found.values())
    assert set(count) == set(range(11))
    # The two ends are half steps: rank 0 is 10 and the last rank 0, exactly.
    assert all(495 <= count[score] <= 505 for score in range(1, 10))
    assert all(245 <= count[score] <= 255 for score in (0, 10))


def test_nodes_without_a_usable_reading_are_omitted():
    readings = {"ok": 1, "absent": None, "nan": math.nan, "several": [1, 2], "stale": 0}
    assert scores(readings, silent=["stale"]) == {"ok": 10}


def test_infinities_rank_at_the_ends():
    assert scores({"a": math.inf, "b": 0, "c": -math.inf}) == {"c": 10, "b": 9, "a": 8}


@pytest.mark.parametrize("target", [-100, 0, 100])
def test_target_is_ignored(target):
    assert scores({"a": 1, "b": 2}, target=target) == {"a": 10, "b": 9}


def test_equals_ranks_nothing():
    assert scores({"a": 1, "b": 2}, "Equals") == {"a": 10, "b": 10}


def test_only_requested_nodes_are_ranked_in_the_requested_order():
    readings = {"a": 1, "b": 2, "c": 3}
    found = scores(readings, asked=["c", "unknown", "b"])
    assert list(found.items()) == [("c", 9), ("b", 10)]


def test_empty_request_has_no_scores():
    assert scores({"a": 1}, asked=[]) == {}
    assert scores({}) == {}


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=60))
def test_better_is_never_scored_worse_and_equal_never_differently(values):
    found = scheduleonmetric.score(np.array(values, dtype=float))
    assert all(0 <= score <= 10 for score in found)
    for one, its_score in zip(values, found, strict=True):
        for other, other_score in zip(values, found, strict=True):
            assert its_score >= other_score if one <= other else its_score <= other_score
    assert max(found) == 10


asked = st.lists(st.sampled_from(["a", "b", "c", "d", "unknown"]), max_size=30)


@given(st.lists(st.sampled_from([1, 2, 3, None]), min_size=4, max_size=4), asked)
def test_subset_of_nodes_is_ranked_as_if_complete(values, asked):
    """Also with duplicate nodes or in another order than the cluster's."""
    readings = dict(zip("abcd", values, strict=True))
    known = [node for node in asked if readings.get(node) is not None]
    expected = scheduleonmetric.score(np.array([readings[node] for node in known], dtype=float))
    assert listed(readings, asked) == list(zip(known, expected, strict=True))


def ranked(by, values, operator="LessThan", full=None):
    """Scores by position of nodes with these readings."""
    nodes = tuple(f"n{number:03}" for number in range(len(values)))
    store = Store(stale_after=10.0, started=0.0)
    store.subscribe(["m"])
    for node, value in zip(nodes, values, strict=True):
        store.report(node, Delta({"m": float(value)}), NOW)
    table = MetricTable(nodes, {"m": store.column("m", nodes, NOW)})
    ranking = scheduleonmetric.rank(Rule("m", Operator(operator), 0), table, RankBy(by))
    if full is not None:
        ranking = ranking.with_amounts(np.array(full, dtype=float))
    return [score for _, score in ranking.scores(nodes)]


@pytest.mark.parametrize(
    ("by", "values", "full", "expected"),
    [
        ("value", [2, 2.01, 7], None, [10, 9, 0]),  # only the best node scores 10
        ("value", list(range(11)), None, [10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
        ("value", [0, 5, 10], None, [10, 5, 0]),
        ("value", [5.0, 5.01], None, [10, 9]),  # within the dead band
        ("value", [5.0, 5.01], [0.1, 0.1], [10, 0]),
        ("value", [3, 3], None, [10, 10]),
        ("value", [-math.inf, 1, math.inf], None, [10, 10, 10]),
        ("value", [-math.inf, 0, 1, math.inf], None, [10, 10, 0, 0]),
        ("headroom", [2, 4, 8], [8, 8, 8], [8, 5, 0]),
        ("headroom", [2, 4], [8, 64], [8, 9]),
        ("headroom", [9, -1], [8, 8], [0, 10]),
        ("headroom", [2, 4, 8], [8, math.nan, 8], [10, 6, 0]),  # as by value
    ],
)
def test_scores_by_value_and_by_headroom(by, values, full, expected):
    assert ranked(by, values, full=full) == expected


def test_headroom_of_what_is_free_is_the_reading():
    assert ranked("headroom", [0.9, 0.25], "GreaterThan", [1, 1]) == [9, 3]


@given(
    st.sampled_from(["value", "headroom"]),
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=20),
    st.sampled_from(["LessThan", "GreaterThan", "Equals"]),
    st.floats(min_value=0) | st.just(math.nan),
)
def test_scores_of_any_readings_are_in_range_and_in_order(by, values, operator, full):
    found = ranked(by, values, operator, [full] * len(values))
    assert all(0 <= score <= 10 for score in found)
    sign = {"LessThan": 1, "GreaterThan": -1, "Equals": 0}[operator]
    by_reading = sorted(range(len(values)), key=lambda n: sign * values[n])
    if sign:
        assert [found[n] for n in by_reading] == sorted(found, reverse=True)


VALUES = st.lists(st.floats(allow_nan=True), min_size=4, max_size=4)


@given(VALUES, st.lists(st.floats(-1e300, 1e300), min_size=4, max_size=4), st.floats(-5, 5))
def test_a_column_with_added_amounts_is_the_one_of_their_sums(values, added, target):
    """The same nodes are usable, and match; nodes without an amount may be left out."""
    nodes = tuple("abcd")

    def column(values):
        store = Store(stale_after=10.0, started=0.0)
        store.subscribe(["m"])
        for node, value in zip(nodes, values, strict=True):
            store.report(node, Delta({"m": float(value)}), NOW)
        return MetricTable(nodes, {"m": store.column("m", nodes, NOW)}).column("m")

    plain, amounts = column(values), np.array(added)
    whole, moved = column(np.array(values) + amounts), plain.moved(amounts)
    assert moved.usable.tolist() == whole.usable.tolist()
    for operator in Operator:
        rule = Rule("m", operator, target)
        assert moved.classes(operator).tolist() == whole.classes(operator).tolist()
        with_them = set(plain.matches_with(rule, amounts).tolist())
        expected = set(whole.matches(rule).nonzero()[0].tolist())
        assert expected - with_them <= set((amounts == 0).nonzero()[0].tolist())
        assert with_them <= expected

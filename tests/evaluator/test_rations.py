"""How many metrics are asked for, and what those say that are not."""

import numpy as np

from evaluator.rations import Rationed, ration
from evaluator.store import Store


def many(count, prefix="m"):
    return frozenset(f"{prefix}{number:06}" for number in range(count))


def test_what_all_policies_name_is_asked_for_as_long_as_it_is_not_too_much():
    found = ration([frozenset("ab"), frozenset("bc")], 3)
    assert (found.asked, found.left_out) == (frozenset("abc"), frozenset())


def test_a_policy_that_names_a_hundred_thousand_goes_short_itself_and_no_other():
    greedy, modest = many(100_000), frozenset({"zeta", "m099999"})
    found = ration([greedy, modest], 1000)
    assert len(found.asked) == 1000
    assert modest <= found.asked
    assert found.asked | found.left_out == greedy | modest
    assert not found.asked & found.left_out


def test_which_are_left_out_does_not_depend_on_the_order_of_policies():
    named = [many(5, "a"), many(5, "b"), many(3, "c"), frozenset({"a000004", "z"})]
    found = ration(named, 7)
    assert len(found.asked) == 7
    assert ration(named[::-1], 7) == found


def test_what_scorers_take_is_asked_for_and_takes_nothing_from_policies():
    found = ration([many(5)], 3, always=frozenset({"x", "y"}))
    assert frozenset({"x", "y"}) <= found.asked
    assert len(found.asked - {"x", "y"}) == 3
    assert found.left_out == many(5) - found.asked
    assert ration([many(3)], 3, always=frozenset({"x", "y"})).left_out == frozenset()


def test_nobody_waits_for_what_is_not_asked_for_and_it_says_why():
    store = Store(stale_after=30.0, started=0.0)
    readings = Rationed(store, {"b"}, 1)
    readings.subscribe(["a"])
    asked = readings.column("a", ["node-a"], 1.0)
    left_out = readings.column("b", ["node-a"], 1.0)
    assert (asked.awaited.all(), asked.fault) == (True, "")
    assert not left_out.awaited.any()
    assert np.isnan(left_out.values).all()
    assert left_out.fault == "not asked for: policies name more than --maxMetrics=1"

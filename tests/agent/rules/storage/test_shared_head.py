"""Samples that groups share: held once, for the longest range, by whose turn it is; and moved between intervals."""

import pytest

from agent.rules.groups.tick import by_metric
from agent.rules.promql.plan import Need
from agent.rules.promql.syntax.matchers import Matcher, Operator, Selector
from agent.rules.storage.shared_head import SharedHead
from agent.rules.storage.store import FullError
from collectors.interface.sample import Family, Sample

SECOND, MINUTE = 1_000, 60_000
M = Selector("m")
FIRST = Selector("m", (Matcher("i", Operator.EQUAL, "0"),))


def families(value=0.0, count=1, name="m"):
    samples = tuple(Sample(name, (("i", str(i)),), value) for i in range(count))
    return by_metric([Family(name, "gauge", "", samples)])


def fill(shared, time, found, *users):
    shared.begin(time)
    for user in users:
        shared.fill(user, found)


def window(shared, until, selector=FIRST):
    (series,) = shared.select(selector)
    found = series.window(0, until)
    return list(zip(found.times, found.values(), strict=True)) if found else []


def test_groups_with_equal_needs_hold_a_series_once():
    shared = SharedHead()
    for user in range(20):
        shared.join(user, [Need(M, MINUTE)])
    fill(shared, SECOND, families(count=100), 0)
    before = shared.bytes
    fill(shared, SECOND, families(count=100), *range(1, 20))
    assert (shared.series, shared.bytes) == (100, before)


def test_longest_range_counts_and_ends_with_its_group():
    shared = SharedHead()
    shared.join("short", [Need(M, MINUTE)])
    shared.join("long", [Need(M, 10 * MINUTE)])
    for second in range(1, 601):
        fill(shared, second * SECOND, families(second), "short", "long")
    assert len(window(shared, 600 * SECOND)) == 600
    shared.leave("long")
    for second in range(601, 700):
        fill(shared, second * SECOND, families(second), "short")
    assert len(window(shared, 700 * SECOND)) < 120


def test_group_that_exceeds_the_limit_takes_nothing_from_others():
    shared = SharedHead()
    shared.join("small", [Need(FIRST, MINUTE)])
    shared.join("big", [Need(M, MINUTE)])
    fill(shared, SECOND, families(1.0), "small")
    shared.limit = shared.bytes + 10_000
    before = shared.bytes
    with pytest.raises(FullError):
        fill(shared, 2 * SECOND, families(2.0, count=1_000), "big")
    shared.leave("big")
    fill(shared, 2 * SECOND, families(2.0, count=1_000), "small")
    fill(shared, 3 * SECOND, families(3.0, count=1_000), "small")
    assert shared.series == 1
    assert shared.bytes < before + 10_000
    assert window(shared, 3 * SECOND) == [(1_000, 1.0), (2_000, 2.0), (3_000, 3.0)]


def test_series_of_another_group_are_not_made_for_this_one():
    shared = SharedHead()
    shared.join("small", [Need(FIRST, MINUTE)])
    shared.join("big", [Need(M, MINUTE)])
    fill(shared, SECOND, families(count=10), "small")
    assert shared.series == 1
    fill(shared, SECOND, families(count=10), "big")
    assert shared.series == 10


def test_series_without_a_group_is_dropped():
    shared = SharedHead()
    shared.join("a", [Need(FIRST, MINUTE)])
    shared.join("b", [Need(M, MINUTE)])
    fill(shared, SECOND, families(count=10), "a", "b")
    shared.leave("b")
    fill(shared, 2 * SECOND, families(count=10), "a")
    assert shared.series == 1


def test_metric_that_vanished_is_stale():
    shared = SharedHead()
    shared.join("a", [Need(M, MINUTE)])
    fill(shared, SECOND, families(), "a")
    fill(shared, 2 * SECOND, {}, "a")
    (series,) = shared.select(M)
    assert series.at(2 * SECOND, 0) is None
    assert series.at(SECOND, 0) == (SECOND, 0.0)


def test_metric_without_its_group_is_unknown_for_that_tick():
    shared = SharedHead()
    shared.join("a", [Need(M, MINUTE)])
    shared.join("n", [Need(Selector("n"), MINUTE)])
    fill(shared, SECOND, families(1.0), "a", "n")
    fill(shared, 2 * SECOND, families(1.0), "n")
    fill(shared, 3 * SECOND, families(1.0), "a", "n")
    assert window(shared, 3 * SECOND) == [(1_000, 1.0), (3_000, 1.0)]


def test_samples_move_to_another_interval():
    slow, quick = SharedHead(), SharedHead()
    slow.join("a", [Need(M, 10 * MINUTE)])
    quick.join("b", [Need(Selector("n"), MINUTE)])
    for second in range(5, 31):
        if second % 5 == 0:
            fill(slow, second * SECOND, families(second), "a")
        if second >= 20:
            fill(quick, second * SECOND, families(second, name="n"), "b")
    quick.join("a", [Need(M, 10 * MINUTE)])
    quick.merge(slow.snapshot())
    fill(quick, 31 * SECOND, {**families(31.0), **families(31.0, name="n")}, "a", "b")
    seconds = [*range(5, 31, 5), 31]
    assert window(quick, 31 * SECOND) == [(s * SECOND, float(s)) for s in seconds]
    (other,) = quick.select(Selector("n"))
    assert other.window(0, 31 * SECOND).times[0] == 20 * SECOND
    assert other.at(31 * SECOND, 0) == (31 * SECOND, 31.0)


def test_merge_keeps_newer_samples_and_adds_older_ones():
    old, new = SharedHead(), SharedHead()
    for shared in (old, new):
        shared.join("a", [Need(M, 10 * MINUTE)])
    for second in range(1, 11):
        fill(old, second * SECOND, families(second), "a")
    for second in range(8, 13):
        fill(new, second * SECOND, families(-second), "a")
    new.merge(old.snapshot())
    expected = [*range(1, 8), *(-second for second in range(8, 13))]
    assert [value for _, value in window(new, 12 * SECOND)] == expected
    assert [time for time, _ in window(new, 12 * SECOND)] == [s * SECOND for s in range(1, 13)]

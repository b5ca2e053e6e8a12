"""Polled readings: whole responses, failures that let readings age, and pending nodes."""

import math

import numpy as np
import pytest

from evaluator.core.readings.column import NEVER, Reading
from evaluator.core.readings.polled import PolledReadings

STALE = 30.0
START = 1000.0
LATER = START + 100


@pytest.fixture
def polls():
    made = PolledReadings("prom", stale_after=STALE, started=START)
    made.subscribe(["cpu", "mem"])
    made.prune(["a", "b"], START)
    return made


def said(at, **values):
    """A response: one sample per node at a time."""
    return {node: Reading(1, value, at) for node, value in values.items()}


def cell(polls, metric, node, now):
    column = polls.column(metric, (node,), now)
    arrays = {name: found for name, found in column._asdict().items() if len(np.shape(found))}
    first = {name: array[0] for name, array in arrays.items()}
    return first | {"values": column.values[0], "usable": bool(column.usable[0])}


def test_response_sets_each_nodes_reading_and_time(polls):
    polls.answer("cpu", {**said(START + 3, a=1.5), **said(START + 4, b=2.5)}, START + 5)
    column = polls.column("cpu", ("b", "a"), START + 5)
    np.testing.assert_array_equal(column.values, [2.5, 1.5])
    np.testing.assert_array_equal(column.at, [START + 4, START + 3])
    assert column.usable.all()


def test_node_absent_from_a_response_is_missing(polls):
    polls.answer("cpu", said(START, a=1.0, b=2.0), START)
    polls.answer("cpu", said(START + 5, a=1.0), START + 5)
    found = cell(polls, "cpu", "b", START + 5)
    assert (found["usable"], found["samples"], found["fresh"]) == (False, 0, True)
    assert math.isnan(found["values"])


def test_node_never_named_is_missing_too(polls):
    polls.answer("cpu", said(START, a=1.0), START)
    polls.answer("mem", said(START, a=1.0, new=2.0), START)  # its row is beyond those of cpu
    for node in ("new", "unheard"):
        found = cell(polls, "cpu", node, START)
        assert (found["samples"], found["usable"], found["unreported"]) == (0, False, False)


@pytest.mark.parametrize(
    ("age", "usable"), [(0, True), (STALE, True), (STALE + 1e-6, False), (1e6, False)]
)
def test_reading_has_the_age_it_reports(polls, age, usable):
    polls.answer("cpu", said(LATER - age, a=1.0), LATER)
    assert cell(polls, "cpu", "a", LATER)["usable"] is usable


def test_readings_age_after_a_failure_and_turn_stale(polls):
    polls.answer("cpu", said(START, a=1.0), START)
    polls.failed("cpu", "500")
    assert cell(polls, "cpu", "a", START + STALE)["usable"]
    assert cell(polls, "cpu", "a", START + STALE)["unread"]
    assert not cell(polls, "cpu", "a", START + STALE + 1)["usable"]
    assert polls.column("cpu", ("a",), START).fault == "prom: 500"


def test_readings_fresh_before_a_suspend_are_pending_until_the_next_response(polls):
    polls.answer("cpu", said(LATER, a=1.0) | said(LATER - STALE - 1, b=1.0), LATER)
    now = LATER + 10 * STALE
    polls.resume(LATER, now)
    assert cell(polls, "cpu", "a", now)["unreported"]
    assert not cell(polls, "cpu", "b", now)["unreported"], "it was stale before"
    assert polls.next_expiry(now) == now + STALE
    assert not cell(polls, "cpu", "a", now + STALE)["unreported"]
    polls.answer("cpu", said(now, a=2.0), now)
    assert cell(polls, "cpu", "a", now)["usable"]


def test_failure_ends_with_the_next_response(polls):
    polls.failed("cpu", "500")
    polls.answer("cpu", said(START, a=1.0), START)
    assert polls.column("cpu", ("a",), START).fault == ""
    assert not cell(polls, "cpu", "a", START)["unread"]


def test_response_with_a_flaw_counts_and_is_reported(polls):
    polls.answer("cpu", said(START, a=1.0), START, fault="one is broken")
    assert cell(polls, "cpu", "a", START)["usable"]
    assert polls.column("cpu", ("a",), START).fault == "prom: one is broken"


def test_everything_is_pending_until_the_first_response(polls):
    assert cell(polls, "cpu", "a", START + STALE - 1)["unreported"]
    polls.failed("cpu", "500")  # correct labels must not be removed because a source starts slowly
    assert cell(polls, "cpu", "a", START + STALE - 1)["unreported"]
    assert not cell(polls, "cpu", "a", START + STALE)["unreported"]
    polls.answer("cpu", said(START, a=1.0), START)
    assert not cell(polls, "cpu", "a", START)["unreported"]


def test_new_metric_is_pending_until_its_first_result(polls):
    polls.subscribe(["cpu", "new"])
    polls.prune(["a"], LATER)
    assert cell(polls, "new", "a", LATER)["unreported"]
    polls.failed("new", "404")
    assert not cell(polls, "new", "a", LATER)["unreported"]


def test_metric_without_a_result_is_not_pending_forever(polls):
    polls.subscribe(["cpu", "new"])
    polls.prune(["a"], LATER)
    assert polls.next_expiry(LATER) == LATER + STALE
    assert cell(polls, "new", "a", LATER + STALE - 1)["unreported"]
    assert not cell(polls, "new", "a", LATER + STALE)["unreported"]


def test_metric_without_a_subscription_is_ignored(polls):
    polls.answer("disk", said(LATER, a=1.0), LATER)
    polls.failed("net", "404")
    column = polls.column("disk", ("a",), LATER)
    assert not column.usable.any()
    assert not column.unreported.any()
    assert polls.metrics == {"cpu", "mem"}


def test_subscription_change_keeps_readings_of_remaining_metrics(polls):
    polls.answer("cpu", said(LATER, a=1.0), LATER)
    polls.subscribe(["cpu", "zzz"])
    assert cell(polls, "cpu", "a", LATER)["usable"]
    polls.subscribe(["zzz"])
    polls.subscribe(["cpu"])
    assert cell(polls, "cpu", "a", LATER)["at"] == NEVER


@pytest.mark.parametrize(
    ("again", "differs"),
    [
        (said(START + 1, a=1.0, b=math.nan), False),
        (said(START + 1, a=2.0, b=math.nan), True),
        (said(START + 1, a=1.0), True),
        (said(START + 1, a=1.0, b=math.nan, c=1.0), True),
        (said(START - STALE, a=1.0, b=math.nan), True),
        ({"a": Reading(2, math.nan, START), "b": Reading(1, math.nan, START)}, True),
    ],
)
def test_version_changes_only_with_a_visible_difference(polls, again, differs):
    polls.answer("cpu", said(START, a=1.0, b=math.nan), START)
    version = polls.version
    polls.answer("cpu", again, START + 1)
    assert (polls.version != version) is differs


def test_repeated_failure_is_no_change(polls):
    polls.failed("cpu", "500")
    version = polls.version
    polls.failed("cpu", "500")
    assert polls.version == version
    polls.failed("cpu", "503")
    assert polls.version > version


def test_next_expiry_is_that_of_the_oldest_fresh_reading(polls):
    polls.answer("cpu", {**said(LATER - 40, a=1.0), **said(LATER - 20, b=1.0)}, LATER)
    polls.answer("mem", said(LATER - 5, a=1.0), LATER)
    assert polls.next_expiry(LATER) == LATER - 20 + STALE


def test_short_lived_names_do_not_accumulate(polls):
    for number in range(1000):
        polls.answer("cpu", said(START, a=1.0, **{f"gone-{number}": 2.0}), START)
        polls.prune(["a", "b"], START)
    polls.answer("mem", said(START, b=3.0), START)
    assert len(polls.column("cpu", ("a",), START).values) == 1
    assert len(polls._rows.rows) < 200
    assert cell(polls, "cpu", "a", START)["values"] == 1.0
    assert cell(polls, "mem", "b", START)["values"] == 3.0


def test_column_is_a_copy(polls):
    polls.answer("cpu", said(START, a=1.0), START)
    before = polls.column("cpu", ("a",), START)
    polls.answer("cpu", said(START, a=2.0), START)
    assert before.values.tolist() == [1.0]


def test_snapshot_is_unchanged_by_later_responses_and_failures():
    polls = PolledReadings("prometheus", stale_after=30.0, started=0.0)
    polls.subscribe(["m", "n"])
    for metric in ("m", "n"):
        polls.answer(metric, {"a": Reading(1, 1.0, 100.0)}, 100.0)
    with polls.snapshot(("a", "b")) as frozen:
        polls.answer("m", {"b": Reading(1, 2.0, 101.0)}, 101.0)
        polls.failed("n", "500")
        found = [frozen.column(metric, ("a", "b"), 101.0) for metric in ("m", "n")]
    for column in found:
        assert column.samples.tolist() == [1, 0]
        assert not column.unread.any()
        assert column.fault == ""

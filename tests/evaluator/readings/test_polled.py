"""What a polled source said last: whole answers, failures that leave readings to grow old, and who is waited for."""

import math

import numpy as np
import pytest

from evaluator.readings.column import NEVER, Reading
from evaluator.readings.polled import PolledReadings

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
    """An answer: one sample of each node at a time."""
    return {node: Reading(1, value, at) for node, value in values.items()}


def cell(polls, metric, node, now):
    column = polls.column(metric, (node,), now)
    arrays = {name: found for name, found in column._asdict().items() if len(np.shape(found))}
    return {name: array[0] for name, array in arrays.items()} | {"usable": bool(column.usable[0])}


def test_an_answer_gives_each_node_its_reading_with_its_time(polls):
    polls.answer("cpu", {**said(START + 3, a=1.5), **said(START + 4, b=2.5)}, START + 5)
    column = polls.column("cpu", ("b", "a"), START + 5)
    np.testing.assert_array_equal(column.values, [2.5, 1.5])
    np.testing.assert_array_equal(column.at, [START + 4, START + 3])
    assert column.usable.all()


def test_a_node_that_an_answer_does_not_name_is_missing_whatever_was_said_before(polls):
    polls.answer("cpu", said(START, a=1.0, b=2.0), START)
    polls.answer("cpu", said(START + 5, a=1.0), START + 5)
    found = cell(polls, "cpu", "b", START + 5)
    assert (found["usable"], found["samples"], found["fresh"]) == (False, 0, True)
    assert math.isnan(found["values"])


def test_a_node_that_nobody_has_heard_of_is_missing_too(polls):
    polls.answer("cpu", said(START, a=1.0), START)
    polls.answer("mem", said(START, a=1.0, new=2.0), START)  # its row is beyond cpu's
    for node in ("new", "unheard"):
        found = cell(polls, "cpu", node, START)
        assert (found["samples"], found["usable"], found["unreported"]) == (0, False, False)


@pytest.mark.parametrize(
    ("age", "usable"), [(0, True), (STALE, True), (STALE + 1e-6, False), (1e6, False)]
)
def test_a_reading_that_was_old_when_it_came_is_as_old_as_it_says(polls, age, usable):
    polls.answer("cpu", said(LATER - age, a=1.0), LATER)
    assert cell(polls, "cpu", "a", LATER)["usable"] is usable


def test_after_a_failure_readings_keep_their_age_and_grow_stale(polls):
    polls.answer("cpu", said(START, a=1.0), START)
    polls.failed("cpu", "500")
    assert cell(polls, "cpu", "a", START + STALE)["usable"]
    assert cell(polls, "cpu", "a", START + STALE)["unread"]
    assert not cell(polls, "cpu", "a", START + STALE + 1)["usable"]
    assert polls.column("cpu", ("a",), START).fault == "prom: 500"


def test_what_was_fresh_when_nobody_could_ask_is_awaited_until_the_next_answer(polls):
    polls.answer("cpu", said(LATER, a=1.0) | said(LATER - STALE - 1, b=1.0), LATER)
    now = LATER + 10 * STALE
    polls.resume(LATER, now)
    assert cell(polls, "cpu", "a", now)["unreported"]
    assert not cell(polls, "cpu", "b", now)["unreported"], "that was stale before"
    assert polls.next_expiry(now) == now + STALE
    assert not cell(polls, "cpu", "a", now + STALE)["unreported"]
    polls.answer("cpu", said(now, a=2.0), now)
    assert cell(polls, "cpu", "a", now)["usable"]


def test_a_failure_is_over_with_the_next_answer(polls):
    polls.failed("cpu", "500")
    polls.answer("cpu", said(START, a=1.0), START)
    assert polls.column("cpu", ("a",), START).fault == ""
    assert not cell(polls, "cpu", "a", START)["unread"]


def test_an_answer_with_a_flaw_counts_and_says_so(polls):
    polls.answer("cpu", said(START, a=1.0), START, fault="one is broken")
    assert cell(polls, "cpu", "a", START)["usable"]
    assert polls.column("cpu", ("a",), START).fault == "prom: one is broken"


def test_at_the_start_everything_is_awaited_until_it_was_answered(polls):
    assert cell(polls, "cpu", "a", START + STALE - 1)["unreported"]
    polls.failed("cpu", "500")  # labels that are right must not go for a source that starts slowly
    assert cell(polls, "cpu", "a", START + STALE - 1)["unreported"]
    assert not cell(polls, "cpu", "a", START + STALE)["unreported"]
    polls.answer("cpu", said(START, a=1.0), START)
    assert not cell(polls, "cpu", "a", START)["unreported"]


def test_a_metric_named_later_is_awaited_until_the_first_word_on_it(polls):
    polls.subscribe(["cpu", "new"])
    polls.prune(["a"], LATER)
    assert cell(polls, "new", "a", LATER)["unreported"]
    polls.failed("new", "404")
    assert not cell(polls, "new", "a", LATER)["unreported"]


def test_a_metric_on_which_there_is_no_word_is_not_awaited_for_ever(polls):
    polls.subscribe(["cpu", "new"])
    polls.prune(["a"], LATER)
    assert polls.next_expiry(LATER) == LATER + STALE
    assert cell(polls, "new", "a", LATER + STALE - 1)["unreported"]
    assert not cell(polls, "new", "a", LATER + STALE)["unreported"]


def test_a_metric_that_nobody_subscribed_to_is_passed_over(polls):
    polls.answer("disk", said(LATER, a=1.0), LATER)
    polls.failed("net", "404")
    column = polls.column("disk", ("a",), LATER)
    assert not column.usable.any()
    assert not column.unreported.any()
    assert polls.metrics == {"cpu", "mem"}


def test_subscribing_keeps_the_readings_of_what_stays(polls):
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
def test_the_version_tells_whether_a_rule_could_see_a_difference(polls, again, differs):
    polls.answer("cpu", said(START, a=1.0, b=math.nan), START)
    version = polls.version
    polls.answer("cpu", again, START + 1)
    assert (polls.version != version) is differs


def test_the_same_failure_again_is_nothing_new(polls):
    polls.failed("cpu", "500")
    version = polls.version
    polls.failed("cpu", "500")
    assert polls.version == version
    polls.failed("cpu", "503")
    assert polls.version > version


def test_the_next_expiry_is_that_of_the_oldest_fresh_reading(polls):
    polls.answer("cpu", {**said(LATER - 40, a=1.0), **said(LATER - 20, b=1.0)}, LATER)
    polls.answer("mem", said(LATER - 5, a=1.0), LATER)
    assert polls.next_expiry(LATER) == LATER - 20 + STALE


def test_names_that_come_and_go_do_not_pile_up(polls):
    for number in range(1000):
        polls.answer("cpu", said(START, a=1.0, **{f"gone-{number}": 2.0}), START)
        polls.prune(["a", "b"], START)
    polls.answer("mem", said(START, b=3.0), START)
    assert len(polls.column("cpu", ("a",), START).values) == 1
    assert len(polls._rows.rows) < 200
    assert cell(polls, "cpu", "a", START)["values"] == 1.0
    assert cell(polls, "mem", "b", START)["values"] == 3.0


def test_a_column_is_a_copy(polls):
    polls.answer("cpu", said(START, a=1.0), START)
    before = polls.column("cpu", ("a",), START)
    polls.answer("cpu", said(START, a=2.0), START)
    assert before.values.tolist() == [1.0]


def test_a_snapshot_stays_as_it_is_whatever_is_answered_or_fails():
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

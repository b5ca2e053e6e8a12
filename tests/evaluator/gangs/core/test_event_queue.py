"""When something is told of a pod: once it has stood for a moment, again when it changed, and again before events end."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.gangs.core.event_queue import EventQueue, EventTimings
from evaluator.plans.policy_events import EventSpec

PACE = EventTimings(settle=2.0, patience=10.0, rest=10.0, repeat=1800.0)


def pod(name):
    return SimpleNamespace(namespace="ns", name=name, uid=f"uid-{name}")


def incomplete(count):
    return EventSpec("Normal", "GangIncomplete", f"{count} of 4 pods exist")


QUOTA = EventSpec("Warning", "GangCannotComplete", "a quota")
P, Q = pod("p"), pod("q")


@pytest.fixture
def untold():
    return EventQueue(PACE)


def drained(untold, now):
    """All that is due, told."""
    found = []
    while story := untold.take(now):
        found.append((story.thread.name, story.notice.message))
        untold.tell(story, story.notice, now, count=story.count + 1)
    return found


def test_a_text_is_told_on_each_pod_once_it_has_stood(untold):
    untold.want("gang", [P, Q], [incomplete(2)], 100.0)
    assert untold.next_due() == 102.0
    assert drained(untold, 101.9) == []
    assert sorted(drained(untold, 102.0)) == [
        ("p", "2 of 4 pods exist"),
        ("q", "2 of 4 pods exist"),
    ]
    untold.want("gang", [P, Q], [incomplete(2)], 103.0)
    assert drained(untold, 110.0) == []


def test_what_has_changed_before_it_was_told_is_not_told(untold):
    for second in range(4):
        untold.want("gang", [P], [incomplete(second)], 100.0 + second)
    assert drained(untold, 104.9) == []
    assert drained(untold, 105.0) == [("p", "3 of 4 pods exist")]


def test_what_keeps_changing_is_told_after_a_while(untold):
    told = []
    for second in range(40):
        untold.want("gang", [P], [incomplete(second)], 100.0 + second)
        told += drained(untold, 100.0 + second)
    assert [text.partition(" ")[0] for _, text in told] == ["10", "21", "32"]


def test_a_change_back_to_what_was_told_is_no_news(untold):
    untold.want("gang", [P], [incomplete(2)], 0.0)
    drained(untold, 2.0)
    untold.want("gang", [P], [incomplete(3)], 3.0)
    untold.want("gang", [P], [incomplete(2)], 4.0)
    assert drained(untold, 1000.0) == []


def test_what_stays_so_is_told_again_before_its_event_ends(untold):
    untold.want("gang", [P], [incomplete(2)], 0.0)
    drained(untold, 2.0)
    assert untold.next_due() == 1802.0
    assert drained(untold, 1802.0) == [("p", "2 of 4 pods exist")]
    assert untold.next_due() == 3602.0


def test_each_reason_has_a_story_of_its_own(untold):
    untold.want("gang", [P], [incomplete(2)], 0.0)
    drained(untold, 2.0)
    untold.want("gang", [P], [incomplete(2), QUOTA], 5.0)
    assert drained(untold, 7.0) == [("p", "a quota")]


def test_of_who_waits_no_more_nothing_is_told(untold):
    untold.want("gang", [P, Q], [incomplete(2)], 0.0)
    untold.want("gang", [Q], [incomplete(2)], 1.0)
    untold.want("other", [P], [QUOTA], 1.0)
    untold.forget("other")
    assert drained(untold, 1000.0) == [("q", "2 of 4 pods exist")]
    untold.want("gang", [], [incomplete(2)], 1001.0)
    assert drained(untold, 1e9) == []
    assert untold.subjects == set()


def test_a_change_while_it_is_written_is_told_next(untold):
    untold.want("gang", [P], [incomplete(2)], 0.0)
    story = untold.take(2.0)
    notice = story.notice
    untold.want("gang", [P], [incomplete(3)], 2.5)
    untold.tell(story, notice, 3.0, count=1)
    assert drained(untold, 12.9) == []
    assert drained(untold, 13.0) == [("p", "3 of 4 pods exist")]


def test_a_reason_that_comes_back_is_told_again_as_the_same(untold):
    turn = EventSpec("Normal", "GangWaitsForTurn", "others go first")
    untold.want("gang", [P], [turn], 0.0)
    drained(untold, 2.0)
    untold.want("gang", [P], [incomplete(2)], 3.0)
    assert drained(untold, 5.0) == [("p", "2 of 4 pods exist")]
    untold.want("gang", [P], [turn], 6.0)
    assert drained(untold, 11.9) == []
    story = untold.take(12.0)
    assert (story.notice, story.count) == (turn, 1)


def test_what_came_and_went_before_it_was_told_is_not_told(untold):
    turn = EventSpec("Normal", "GangWaitsForTurn", "others go first")
    untold.want("gang", [P], [incomplete(2)], 0.0)
    drained(untold, 2.0)
    untold.want("gang", [P], [turn], 20.0)
    untold.want("gang", [P], [incomplete(2)], 21.0)
    assert drained(untold, 1000.0) == []


def test_what_could_not_be_told_is_due_still(untold):
    untold.want("gang", [P], [incomplete(2)], 0.0)
    untold.again(untold.take(2.0))
    assert drained(untold, 2.0) == [("p", "2 of 4 pods exist")]


def test_a_pod_made_anew_under_its_name_is_another(untold):
    untold.want("gang", [P], [incomplete(2)], 0.0)
    drained(untold, 2.0)
    again = SimpleNamespace(namespace="ns", name="p", uid="another")
    untold.want("gang", [again], [incomplete(2)], 3.0)
    assert drained(untold, 5.0) == [("p", "2 of 4 pods exist")]


def test_what_stays_so_takes_no_more_room(untold):
    for second in range(1000):
        untold.want("gang", [P, Q], [incomplete(2)], float(second))
        drained(untold, float(second))
    assert len(untold._queue) <= 4


@given(st.lists(st.tuples(st.floats(0.01, 5), st.integers(0, 3), st.booleans()), max_size=40))
def test_in_the_end_the_last_word_is_told_and_never_twice_in_a_row(steps):
    untold, now, told = EventQueue(PACE), 0.0, {}
    for pause, text, both in steps:
        now += pause
        untold.want("gang", [P, Q] if both else [P], [incomplete(text)], now)
        for name, message in drained(untold, now):
            assert told.get(name) != message
            told[name] = message
        told = told if both else {name: told[name] for name in told if name == "p"}
    for name, message in drained(untold, now + PACE.patience):
        assert told.get(name) != message
        told[name] = message
    if steps:
        wanted = incomplete(steps[-1][1]).message
        names = ["p", "q"] if steps[-1][2] else ["p"]
        assert told == dict.fromkeys(names, wanted)

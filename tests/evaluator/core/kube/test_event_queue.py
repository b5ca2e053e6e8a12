"""When events are written: after a stable moment, after changes, and before they expire."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.kube.event_queue import EventQueue, EventTimings
from evaluator.core.model.events import EventSpec

PACE = EventTimings(settle=2.0, patience=10.0, rest=10.0, repeat=1800.0)


def pod(name):
    return SimpleNamespace(namespace="ns", name=name, uid=f"uid-{name}")


def incomplete(count):
    return EventSpec("Normal", "GangIncomplete", f"{count} of 4 pods exist")


QUOTA = EventSpec("Warning", "GangCannotComplete", "a quota")
P, Q = pod("p"), pod("q")


@pytest.fixture
def pending():
    return EventQueue(PACE)


def drained(pending, now):
    """All events that are due, taken."""
    found = []
    while state := pending.pop_due(now):
        found.append((state.event_key.name, state.notice.message))
        pending.done(state, state.notice, now, count=state.count + 1)
    return found


def test_text_is_written_on_each_pod_once_stable(pending):
    pending.want("gang", [P, Q], [incomplete(2)], 100.0)
    assert pending.next_due() == 102.0
    assert drained(pending, 101.9) == []
    assert sorted(drained(pending, 102.0)) == [
        ("p", "2 of 4 pods exist"),
        ("q", "2 of 4 pods exist"),
    ]
    pending.want("gang", [P, Q], [incomplete(2)], 103.0)
    assert drained(pending, 110.0) == []


def test_text_replaced_before_it_was_written_is_dropped(pending):
    for second in range(4):
        pending.want("gang", [P], [incomplete(second)], 100.0 + second)
    assert drained(pending, 104.9) == []
    assert drained(pending, 105.0) == [("p", "3 of 4 pods exist")]


def test_text_that_keeps_changing_is_written_after_a_while(pending):
    reported = []
    for second in range(40):
        pending.want("gang", [P], [incomplete(second)], 100.0 + second)
        reported += drained(pending, 100.0 + second)
    assert [text.partition(" ")[0] for _, text in reported] == ["10", "21", "32"]


def test_return_to_the_written_text_is_no_change(pending):
    pending.want("gang", [P], [incomplete(2)], 0.0)
    drained(pending, 2.0)
    pending.want("gang", [P], [incomplete(3)], 3.0)
    pending.want("gang", [P], [incomplete(2)], 4.0)
    assert drained(pending, 1000.0) == []


def test_unchanged_text_is_repeated_before_its_event_expires(pending):
    pending.want("gang", [P], [incomplete(2)], 0.0)
    drained(pending, 2.0)
    assert pending.next_due() == 1802.0
    assert drained(pending, 1802.0) == [("p", "2 of 4 pods exist")]
    assert pending.next_due() == 3602.0


def test_each_reason_has_its_own_state(pending):
    pending.want("gang", [P], [incomplete(2)], 0.0)
    drained(pending, 2.0)
    pending.want("gang", [P], [incomplete(2), QUOTA], 5.0)
    assert drained(pending, 7.0) == [("p", "a quota")]


def test_pods_that_no_longer_wait_get_no_event(pending):
    pending.want("gang", [P, Q], [incomplete(2)], 0.0)
    pending.want("gang", [Q], [incomplete(2)], 1.0)
    pending.want("other", [P], [QUOTA], 1.0)
    pending.forget("other")
    assert drained(pending, 1000.0) == [("q", "2 of 4 pods exist")]
    pending.want("gang", [], [incomplete(2)], 1001.0)
    assert drained(pending, 1e9) == []
    assert pending.subjects == set()


def test_change_during_a_write_is_written_next(pending):
    pending.want("gang", [P], [incomplete(2)], 0.0)
    state = pending.pop_due(2.0)
    notice = state.notice
    pending.want("gang", [P], [incomplete(3)], 2.5)
    pending.done(state, notice, 3.0, count=1)
    assert drained(pending, 12.9) == []
    assert drained(pending, 13.0) == [("p", "3 of 4 pods exist")]


def test_returning_reason_reuses_its_event(pending):
    reservation = EventSpec("Normal", "GangWaitsForTurn", "others go first")
    pending.want("gang", [P], [reservation], 0.0)
    drained(pending, 2.0)
    pending.want("gang", [P], [incomplete(2)], 3.0)
    assert drained(pending, 5.0) == [("p", "2 of 4 pods exist")]
    pending.want("gang", [P], [reservation], 6.0)
    assert drained(pending, 11.9) == []
    state = pending.pop_due(12.0)
    assert (state.notice, state.count) == (reservation, 1)


def test_reason_that_ended_before_it_was_written_is_dropped(pending):
    reservation = EventSpec("Normal", "GangWaitsForTurn", "others go first")
    pending.want("gang", [P], [incomplete(2)], 0.0)
    drained(pending, 2.0)
    pending.want("gang", [P], [reservation], 20.0)
    pending.want("gang", [P], [incomplete(2)], 21.0)
    assert drained(pending, 1000.0) == []


def test_failed_write_stays_due(pending):
    pending.want("gang", [P], [incomplete(2)], 0.0)
    pending.requeue(pending.pop_due(2.0))
    assert drained(pending, 2.0) == [("p", "2 of 4 pods exist")]


def test_recreated_pod_has_its_own_events(pending):
    pending.want("gang", [P], [incomplete(2)], 0.0)
    drained(pending, 2.0)
    requeue = SimpleNamespace(namespace="ns", name="p", uid="another")
    pending.want("gang", [requeue], [incomplete(2)], 3.0)
    assert drained(pending, 5.0) == [("p", "2 of 4 pods exist")]


def test_unchanged_text_takes_no_more_memory(pending):
    for second in range(1000):
        pending.want("gang", [P, Q], [incomplete(2)], float(second))
        drained(pending, float(second))
    assert len(pending._queue) <= 4


@given(st.lists(st.tuples(st.floats(0.01, 5), st.integers(0, 3), st.booleans()), max_size=40))
def test_last_text_is_always_written_and_never_twice_in_a_row(steps):
    pending, now, reported = EventQueue(PACE), 0.0, {}
    for pause, text, both in steps:
        now += pause
        pending.want("gang", [P, Q] if both else [P], [incomplete(text)], now)
        for name, message in drained(pending, now):
            assert reported.get(name) != message
            reported[name] = message
        reported = reported if both else {name: reported[name] for name in reported if name == "p"}
    for name, message in drained(pending, now + PACE.patience):
        assert reported.get(name) != message
        reported[name] = message
    if steps:
        wanted = incomplete(steps[-1][1]).message
        names = ["p", "q"] if steps[-1][2] else ["p"]
        assert reported == dict.fromkeys(names, wanted)

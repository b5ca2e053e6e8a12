"""The order in which waiting pods are tried, and when."""

import math

import pytest

from sandbox.scheduler.queue import FLUSH, SchedulingQueue


@pytest.fixture
def pending():
    return SchedulingQueue()


def put(pending, key, priority=0, gated=False, now=0.0):
    pending.put(key, priority=priority, gated=gated, now=now)


def test_priority_comes_first_then_who_was_seen_first(pending):
    put(pending, "old")
    put(pending, "new")
    put(pending, "urgent", priority=5)
    assert [pending.take(0), pending.take(0), pending.take(0), pending.take(0)] == [
        "urgent",
        "old",
        "new",
        None,
    ]


def test_a_gated_pod_waits_but_keeps_its_place(pending):
    put(pending, "gated", gated=True)
    put(pending, "free")
    assert pending.due() == 0
    put(pending, "gated", gated=False, now=7)
    assert pending.take(7) == "gated"


def test_a_pod_tried_in_vain_goes_behind_its_equals(pending):
    for key in ("refused", "failed", "gated", "free"):
        put(pending, key, gated=key == "gated")
    pending.refused(pending.take(0), 0)
    pending.failed(pending.take(0), 0)
    pending.nudge_all(1)
    put(pending, "gated", now=1)
    assert [pending.take(1) for _ in range(4)] == ["gated", "free", "refused", "failed"]


def test_nothing_but_a_gated_pod_is_nothing_to_do(pending):
    put(pending, "gated", gated=True)
    pending.nudge_all(1)
    assert (pending.take(1), pending.due()) == (None, math.inf)


def test_a_refused_pod_is_tried_again_after_the_flush(pending):
    put(pending, "p")
    pending.take(10)
    pending.refused("p", 11)
    assert pending.due() == 11 + FLUSH
    assert pending.take(11 + FLUSH - 1) is None
    assert pending.take(11 + FLUSH) == "p"


def test_a_nudge_wakes_a_refused_pod_at_once(pending):
    put(pending, "p")
    put(pending, "q")
    for key in (pending.take(0), pending.take(0)):
        pending.refused(key, 0)
    pending.nudge("q", 3)
    assert (pending.take(3), pending.take(3)) == ("q", None)
    pending.nudge_all(4)
    assert pending.take(4) == "p"


def test_a_nudge_during_the_attempt_is_honoured_when_it_ends(pending):
    put(pending, "p")
    pending.take(0)
    pending.nudge_all(1)
    assert pending.take(1) is None
    pending.refused("p", 2)
    assert pending.take(2) == "p"
    pending.refused("p", 3)  # that nudge is used up
    assert pending.take(3) is None


def test_errors_back_off_and_no_nudge_shortens_that(pending):
    put(pending, "p")
    now, waits = 0.0, []
    for _ in range(6):
        assert pending.take(now) == "p"
        pending.failed("p", now)
        pending.nudge_all(now)
        waits.append(pending.due() - now)
        now = pending.due()
    assert waits == [1, 2, 4, 8, 10, 10]


def test_a_refusal_ends_the_back_off(pending):
    put(pending, "p")
    for ending in (pending.failed, pending.failed, pending.refused, pending.failed):
        now = pending.due()
        pending.take(now)
        ending("p", now)
    assert pending.due() - now == 1


def test_a_forgotten_pod_is_gone_even_while_it_is_tried(pending):
    put(pending, "p")
    pending.take(0)
    pending.forget("p")
    pending.refused("p", 1)
    pending.failed("p", 1)
    pending.nudge("p", 1)
    assert "p" not in pending
    assert pending.due() == math.inf

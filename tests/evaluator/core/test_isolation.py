"""What the handling of one object raises fails that object alone: said once, counted, and left alone for a while."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry, Counter

from evaluator.core.isolation import Isolation
from plimsoll.steps import finished
from tests.clock import Clock

MINUTE = 60.0


class OddError(Exception):
    """What nobody expected."""


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def errors():
    return Counter("errors", "", ["part"], registry=CollectorRegistry())


@pytest.fixture
def isolation(clock, errors):
    return Isolation(errors, clock=clock)


def fail(key):
    raise OddError(f"no handling of {key}")


def test_object_that_raises_costs_only_itself(isolation, errors):
    part = isolation.part("writers")
    handled = [part.run(key, lambda key=key: key if key != "b" else fail(key), None) for key in "abc"]  # fmt: skip
    assert handled == ["a", None, "c"]
    assert errors.labels("writers")._value.get() == 1
    assert [key for key in "abc" if part.is_resting(key)] == ["b"]


def test_object_that_raised_is_left_alone_longer_each_time_and_not_once_it_succeeded(
    isolation, clock
):
    part = isolation.part("writers")
    rests = []
    for _ in range(12):
        part.run("a", lambda: fail("a"), None)
        rests.append(part.rest("a"))
        clock.now += rests[-1]
        assert not part.is_resting("a")
    assert rests[0] <= 1.0
    assert max(rests) <= 300.0
    assert rests[-1] > 10 * rests[0]
    part.run("a", lambda: None, None)
    assert (part.failing, part.rest("a")) == (0, 0.0)


def test_object_that_another_program_refuses_is_left_alone_and_is_no_error(
    isolation, errors, clock
):
    part = isolation.part("writers")
    rests = [part.refused("a") for _ in range(8)]
    assert rests[0] <= 1.0 < rests[-1]
    assert part.refused("b", least=400.0) == part.rest("b") == 400.0
    assert errors.labels("writers")._value.get() == 0
    for key in "abc":
        part.refused(key)
    part.run("d", lambda: fail("d"), None)
    clock.now += 2 * MINUTE
    assert isolation.stuck() == [], "refusals are not the fault of this replica"
    part.succeeded("a")
    assert part.rest("a") == 0.0


def test_object_that_is_left_alone_is_not_attempted_until_its_time(isolation, clock):
    part, called = isolation.part("writers"), []
    part.attempt("a", lambda: fail("a"), None)
    again = part.until_retry()
    assert part.attempt("a", lambda: called.append("a"), "otherwise") == "otherwise"
    clock.now += again
    assert part.until_retry() is None
    part.attempt("a", lambda: called.append("a"), None)
    assert called == ["a"]


def test_steps_of_an_object_return_their_result_or_none_if_they_raise(isolation):
    part = isolation.part("writers")

    def steps(last):
        yield
        return last()

    assert finished(part.steps("a", steps(lambda: "made"))) == "made"
    assert finished(part.steps("b", steps(lambda: fail("b")))) is None
    assert part.is_resting("b")


def test_traceback_is_logged_once_for_each_place(isolation, log_lines):
    lines = log_lines("logfmt")
    part = isolation.part("writers")
    for key in "abc":
        part.run(key, lambda key=key: fail(key), None)
    with part.isolated("d"):
        raise OddError("elsewhere")
    text = "\n".join(lines())
    assert text.count("Traceback") == 2
    assert all(f"about={key}" in text for key in "abcd")


def test_failing_objects_that_are_remembered_are_bounded(isolation):
    part = isolation.part("writers")
    for key in range(10_050):
        part.run(key, lambda: fail("one"), None)
    assert part.failing == 10_000


@pytest.mark.parametrize(("objects", "stuck"), [("ab", False), ("abc", True)])
def test_part_is_stuck_once_several_objects_and_none_else_failed_for_a_minute(
    isolation, clock, objects, stuck
):
    part = isolation.part("writers")
    for key in objects:
        part.run(key, lambda key=key: fail(key), None)
    clock.now += MINUTE - 0.1
    assert isolation.stuck() == []
    clock.now += 0.2
    assert isolation.stuck() == (
        ["writers: everything fails; the log has the internal errors"] if stuck else []
    )
    part.run("z", lambda: None, None)
    assert isolation.stuck() == []


def test_stuck_part_may_prove_itself_after_five_minutes(isolation, clock):
    part = isolation.part("writers")
    for key in "abc":
        part.run(key, lambda key=key: fail(key), None)
    clock.now += 6 * MINUTE + 1
    assert isolation.stuck() == []
    part.run("a", lambda: fail("a"), None)
    clock.now += MINUTE
    assert isolation.stuck() != []


async def test_loop_that_raises_is_started_again(isolation, errors, monkeypatch):
    paused, runs = [], []

    async def pause(delay):
        paused.append(delay)

    async def loop():
        runs.append(None)
        if len(runs) < 3:
            fail("the loop")

    monkeypatch.setattr(asyncio, "sleep", pause)
    await isolation.keep_running("labels: Writer", loop)
    assert len(runs) == 3
    assert all(0 < delay <= 2.0 for delay in paused)
    assert errors.labels("labels: Writer")._value.get() == 2


async def test_cancelled_loop_ends(isolation):
    running = asyncio.create_task(isolation.keep_running("x", asyncio.Event().wait))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

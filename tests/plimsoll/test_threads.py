"""Hanging calls, with real threads: whom they delay, and for how long they are waited for."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from plimsoll.threads import BlockingCallRunner, Late, StoppedError
from tests.patience import PATIENCE

NAME = "test-runner"


class Gate:
    """A call that hangs until it is released."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.open = threading.Event()
        self.runs = 0

    def __call__(self) -> str:
        self.runs += 1
        self.entered.release()
        assert self.open.wait(PATIENCE)
        return f"through {self.runs}"


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


@pytest.fixture
def make() -> Iterator[Callable[..., BlockingCallRunner[str, str]]]:
    made: list[BlockingCallRunner[str, str]] = []

    def runner(timeout: float, moment: float = 0.005) -> BlockingCallRunner[str, str]:
        made.append(BlockingCallRunner(timeout, moment=moment, name=NAME))
        return made[-1]

    yield runner
    for one in made:
        one.close()


def aside(do: Callable[[], object]) -> "tuple[threading.Thread, list[object]]":
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(do()))
    thread.start()
    return thread, found


def threads() -> int:
    return sum(thread.name == NAME for thread in threading.enumerate())


def settle(count: int) -> None:
    """Wait until this many threads are left; an ended one is listed for a moment."""
    deadline = time.monotonic() + PATIENCE
    while threads() > count:
        assert time.monotonic() < deadline, f"{threads()} threads"
        time.sleep(0.01)


def test_results_are_by_key(make) -> None:
    runner = make(PATIENCE)
    assert runner.run({"a": lambda: "x", "b": lambda: "y"}) == {"a": "x", "b": "y"}
    assert runner.run({}) == {}
    assert threads() == 1, "quick calls share one thread"


def test_hanging_call_is_late_and_delays_no_other(make, gate) -> None:
    runner = make(0.05)
    found = runner.run({"stuck": gate, "good": lambda: "y"})
    assert found["good"] == "y"
    assert isinstance(found["stuck"], Late)
    assert found["stuck"].seconds >= 0.05


def test_hanging_call_is_not_started_again_until_it_returns(make, gate) -> None:
    runner = make(0.05)
    for _ in range(3):
        assert isinstance(runner.run({"stuck": gate})["stuck"], Late)
    assert gate.runs == 1
    gate.open.set()
    while isinstance(found := runner.run({"stuck": gate})["stuck"], Late):
        pass
    assert found == "through 2", "a late result is dropped"


def test_slow_call_is_waited_for_while_others_run(make, gate) -> None:
    runner = make(PATIENCE)

    def open_gate() -> str:
        gate.open.set()
        return "opened"

    assert runner.run({"slow": gate, "other": open_gate}) == {
        "slow": "through 1",
        "other": "opened",
    }


def test_concurrent_run_gets_its_results_while_another_waits(make, gate) -> None:
    runner = make(PATIENCE)
    thread, found = aside(lambda: runner.run({"stuck": gate}))
    assert gate.entered.acquire(timeout=PATIENCE)
    assert runner.run({"good": lambda: "y"}) == {"good": "y"}
    gate.open.set()
    thread.join(PATIENCE)
    assert found == [{"stuck": "through 1"}]


def test_result_is_never_from_before_the_request(make, gate) -> None:
    runner = make(PATIENCE)
    first, _ = aside(lambda: runner.run({"slow": gate}))
    assert gate.entered.acquire(timeout=PATIENCE)
    asked = [aside(lambda: runner.run({"slow": gate})) for _ in range(5)]
    while len(runner._queued.get("slow", _NONE).waits) < 5:
        pass
    gate.open.set()
    for thread, found in asked:
        thread.join(PATIENCE)
        assert found == [{"slow": "through 2"}], "waiting callers share one call"
    first.join(PATIENCE)


class _None:
    waits = ()


_NONE = _None()


def test_waiter_behind_a_hanging_call_gets_late_when_it_is_late(make, gate) -> None:
    runner = make(0.1)
    thread, _ = aside(lambda: runner.run({"stuck": gate}))
    assert gate.entered.acquire(timeout=PATIENCE)
    assert isinstance(runner.run({"stuck": gate})["stuck"], Late)
    thread.join(PATIENCE)
    assert gate.runs == 1
    assert runner._queued == {}, "no caller waits for it"


def test_threads_are_bounded_by_the_calls(make) -> None:
    gates = {f"stuck {number}": Gate() for number in range(4)}
    runner = make(0.05)
    try:
        for _ in range(5):
            found = runner.run({**gates, "good": lambda: "y"})
            assert found["good"] == "y"
        assert threads() <= len(gates) + 1
        assert [gate.runs for gate in gates.values()] == [1] * 4
    finally:
        for gate in gates.values():
            gate.open.set()
    settle(1)
    assert runner.run({"good": lambda: "y"}) == {"good": "y"}


def test_many_concurrent_runs_get_their_results(make) -> None:
    runner = make(PATIENCE)
    calls = {str(number): lambda number=number: str(number) for number in range(20)}
    asked = [aside(lambda: runner.run(calls)) for _ in range(20)]
    for thread, found in asked:
        thread.join(PATIENCE)
        assert found == [{key: key for key in calls}]


def test_callback_receives_results_instead_of_waiting(make, gate) -> None:
    runner = make(PATIENCE)
    told: list[object] = []
    both = threading.Semaphore(0)

    def tell(results: object) -> None:
        told.append((results, threading.current_thread().name))
        both.release()

    look = runner.start({"slow": gate}, tell)
    runner.start({}, tell)
    assert both.acquire(timeout=PATIENCE)
    assert told == [({}, threading.current_thread().name)], "nothing to wait for"
    look()
    gate.open.set()
    assert both.acquire(timeout=PATIENCE)
    assert told[1:] == [({"slow": "through 1"}, NAME)]
    look()
    assert len(told) == 2, "once"


def test_polling_reports_late_calls(make, gate) -> None:
    runner = make(0.05)
    told: list[dict[str, object]] = []
    look = runner.start({"b": gate, "a": lambda: "x"}, told.append)
    waiting = threading.Event()
    while not told:
        look()
        waiting.wait(0.01)
    assert list(told[0]) == ["b", "a"], "in the requested order"
    assert isinstance(told[0]["b"], Late)


def test_closing_releases_all_waiters_at_once(make, gate) -> None:
    runner = make(PATIENCE)
    failed = threading.Event()

    def wait() -> None:
        with pytest.raises(StoppedError):
            runner.run({"stuck": gate})
        failed.set()

    thread, _ = aside(wait)
    assert gate.entered.acquire(timeout=PATIENCE)
    runner.close()
    assert failed.wait(PATIENCE)
    thread.join()
    with pytest.raises(StoppedError):
        runner.run({"good": lambda: "y"})


def test_closing_ends_idle_threads(make) -> None:
    runner = make(PATIENCE)
    runner.run({"good": lambda: "y"})
    runner.close()
    settle(0)


def test_threads_do_not_keep_the_process_alive(make, gate) -> None:
    runner = make(0.02)
    runner.run({"stuck": gate})
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == NAME)

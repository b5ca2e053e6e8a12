"""Problems and their ways back to healthy."""

import json

import pytest

from collectors.problems.tracking import MOST_EVENTS, ProblemTracker, parse_recovery
from collectors.shared.problems import monitors
from collectors.shared.problems.matching import LineMatcher
from tests.collectors.problems.configurations import document

MONITOR = monitors.parse(document(), "kernel.json")
DOCKER = "task docker:7 blocked for more than 120 seconds."


class Log:
    """A log and the problems in it."""

    def __init__(self, *recovery: str) -> None:
        self.tracker = ProblemTracker([MONITOR], dict(map(parse_recovery, recovery)))
        self._matcher = LineMatcher(MONITOR.rules, MONITOR.lines)

    def write(self, text: str, at: float) -> None:
        for match in self._matcher.push(text):
            self.tracker.matched(MONITOR, match, at)

    def active(self) -> dict[str, str]:
        return {c.type: c.reason for c in self.tracker.conditions.values() if c.active}


def test_temporary_problem_is_counted_and_kept_once_with_its_number() -> None:
    log = Log()
    for at in range(3):
        log.write("INFO: task init:1 blocked for more than 120 seconds.", float(at))
    assert log.tracker.counts["Hung"] == 3
    (event,) = log.tracker.events.values()
    assert (event.source, event.reason, event.times, event.at) == ("kernel", "Hung", 3, 2.0)
    assert log.active() == {}


def test_permanent_problem_is_a_condition_and_an_event_when_it_begins() -> None:
    log = Log()
    log.write(DOCKER, 5.0)
    log.write(DOCKER, 9.0)
    condition = log.tracker.conditions["KernelDeadlock"]
    assert (condition.active, condition.reason, condition.message) == (True, "DockerHung", DOCKER)
    assert (condition.since, condition.seen) == (5.0, 9.0)
    assert log.tracker.counts["DockerHung"] == 1
    log.write("stuck", 11.0)
    assert log.active() == {"KernelDeadlock": "Stuck"}
    assert log.tracker.conditions["KernelDeadlock"].message == "stuck; reboot"


@pytest.mark.parametrize(
    ("recovery", "line", "kind", "steps"),
    [
        # steps: seconds after the line, whether the state has the problem, whether the problem is still there
        ((), "read-only", "ReadonlyFilesystem", [(1, False, True), (60, True, True), (61, None, True), (62, False, False)]),
        ((), "stuck", "KernelDeadlock", [(1e9, False, True)]),
        (("KernelDeadlock=1h",), "stuck", "KernelDeadlock", [(3599, None, True), (3600, None, False)]),
        (("ReadonlyFilesystem=reboot",), "read-only", "ReadonlyFilesystem", [(1e9, False, True)]),
    ],
)  # fmt: skip
def test_problem_ends_in_its_way(recovery, line, kind, steps) -> None:
    log = Log(*recovery)
    log.write(line, 0.0)
    for at, state, still in steps:
        log.tracker.recover(at, {} if state is None else {kind: state})
        assert (kind in log.active()) == still, at
    condition = log.tracker.conditions[kind]
    if not condition.active:
        assert condition.reason in {"NoDeadlock", "Writable"}
        assert condition.since == steps[-1][0]


def test_quiet_time_begins_anew_with_each_line() -> None:
    log = Log("KernelDeadlock=10m")
    log.write("stuck", 0.0)
    log.write("stuck", 500.0)
    log.tracker.recover(700.0, {})
    assert log.active()
    log.tracker.recover(1100.0, {})
    assert not log.active()


def test_acknowledgement_ends_what_is_older_than_it() -> None:
    log = Log()
    log.write("stuck", 100.0)
    assert not log.tracker.acknowledge("KernelDeadlock", 99.0, now=150.0)
    assert not log.tracker.acknowledge("Other", 101.0, now=150.0)
    assert log.tracker.acknowledge("KernelDeadlock", 101.0, now=150.0)
    assert log.active() == {}
    log.write("stuck", 200.0)
    assert not log.tracker.acknowledge("KernelDeadlock", 101.0, now=250.0)
    assert log.active()


def test_acknowledgement_of_a_clock_that_is_ahead_counts_as_one_of_now() -> None:
    log = Log()
    log.write("stuck", 100.0)
    for at in (float("inf"), 3700.0):
        assert not log.tracker.acknowledge("KernelDeadlock", at, now=50.0)
    assert not log.tracker.acknowledge("KernelDeadlock", float("nan"), now=150.0)
    assert log.tracker.acknowledge("KernelDeadlock", 3700.0, now=150.0)


def test_state_survives_a_restart() -> None:
    log = Log()
    log.write("stuck", 100.0)
    log.write("INFO: task init:1 blocked for more than 120 seconds.", 101.0)
    dumped = json.loads(json.dumps(log.tracker.dump()))
    again = Log()
    again.tracker.load(dumped)
    assert again.active() == log.active()
    assert again.tracker.counts == log.tracker.counts
    again.tracker.load({"counts": {"Unknown": 1}, "conditions": [{**dumped["conditions"][0], "type": "Unknown"}]})  # fmt: skip
    assert "Unknown" not in again.tracker.conditions


def test_events_are_bounded() -> None:
    document_ = document(rules=[{"type": "temporary", "reason": f"R{n}", "pattern": f"line {n}"} for n in range(200)])  # fmt: skip
    monitor = monitors.parse(document_, "many.json")
    tracker, matcher = ProblemTracker([monitor], {}), LineMatcher(monitor.rules, 1)
    for n in range(200):
        for match in matcher.push(f"line {n}" + "\x1b[31m" * 0):
            tracker.matched(monitor, match, 1.0)
    assert len(tracker.events) == MOST_EVENTS


def test_messages_are_one_bounded_printable_line() -> None:
    log = Log()
    log.write("\x1b[2J\x07" + "é" * 5000 + " stuck", 1.0)
    message = log.tracker.conditions["KernelDeadlock"].message
    assert message.isprintable()
    assert len(message) <= 1000


@pytest.mark.parametrize(
    "text", ["", "KernelDeadlock", "=1h", "KernelDeadlock=state", "KernelDeadlock=soon"]
)
def test_mistakes_in_recovery_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"not TYPE=WAY|cannot be read|not a duration"):
        parse_recovery(text)

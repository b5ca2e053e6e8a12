"""Problems from logs on the wire: bounded, and as Kubernetes accepts them."""

import pytest

from wire import codec, problems, telemetry_pb2
from wire.codec import MalformedReportError
from wire.problems import ProblemCondition, ProblemEvent, Problems

METRICS = ("cpu", "health_metric", "memory", "pressure", "synthetic")


CONDITION = ProblemCondition("KernelDeadlock", True, "DockerHung", "task docker:1 hangs", 5.5)
EVENT = ProblemEvent("kernel-monitor", "TaskHung", "task a:1 hangs", 3)


def with_problems(found, *, full=False):
    report = telemetry_pb2.Report(full=full)
    codec.add_problems(report, found)
    return telemetry_pb2.Report.FromString(report.SerializeToString())


def test_problems_are_decoded():
    found = Problems((CONDITION,), (EVENT,))
    assert codec.decode(with_problems(found), METRICS).problems == found


def test_report_without_problems_changes_them_only_if_it_is_full():
    assert codec.decode(telemetry_pb2.Report(), METRICS).problems is None
    assert codec.decode(telemetry_pb2.Report(full=True), METRICS).problems == problems.NONE


def test_problems_of_a_report_are_bounded():
    conditions = tuple(CONDITION._replace(type=f"T{n}", message="é" * 5000) for n in range(50))
    events = (EVENT._replace(message="\x1b[31m" * 500),) * 50
    report = with_problems(Problems(conditions, events))
    assert report.ByteSize() < 2 * problems.MOST_BYTES
    found = codec.decode(report, METRICS).problems
    assert len(found.conditions) == problems.MOST_CONDITIONS
    assert len(found.events) <= problems.MOST_EVENTS
    assert all(entry.message.isprintable() for entry in (*found.conditions, *found.events))


def test_times_of_an_event_are_bounded_at_both_ends():
    report = with_problems(Problems((), (EVENT._replace(times=2**40),)))
    assert report.problems.events[0].times == problems.MOST_TIMES
    for told, believed in ((2**32 - 1, problems.MOST_TIMES), (0, 1)):
        report.problems.events[0].times = told
        assert codec.decode(report, METRICS).problems.events[0].times == believed


@pytest.mark.parametrize(
    "found",
    [
        {"conditions": [{"type": "has blanks", "reason": "R"}]},
        {"conditions": [{"type": "T", "reason": ""}]},
        {"conditions": [{"type": "T", "reason": "R"}] * 2},
        {"conditions": [{"type": f"T{n}", "reason": "R"} for n in range(33)]},
        *(
            {"conditions": [{"type": "T", "reason": "R", "since": since}]}
            for since in (float("nan"), float("inf"), -1e300, -1.0, 1e300, 253402300800.0)
        ),
        {"conditions": [{"type": "T", "reason": "R", "message": "x" * 30_000}]},
        {"events": [{"reason": "R"}] * 21},
        {"events": [{"reason": "R\nS"}]},
    ],
)
def test_invalid_problems_are_rejected(found):
    report = telemetry_pb2.Report(problems=telemetry_pb2.Problems(**found))
    with pytest.raises(MalformedReportError, match="problem"):
        codec.decode(report, METRICS)

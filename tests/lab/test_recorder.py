"""What of an agent's reports becomes a line of the recording."""

from lab.record import Recorder
from wire.codec import Delta


def lines(recorder):
    return recorder.take().decode().splitlines()


def test_a_report_confirms_all_readings_that_it_does_not_name():
    now = iter([1000.0, 1015.0625])
    recorder = Recorder(lambda: next(now))
    recorder.report("node-a", Delta({"one": 1.5, "two": 2.0}), 0)
    recorder.report("node-a", Delta({"two": float("inf")}), 0)
    assert lines(recorder) == [
        'one{node="node-a"} 1.5 1000.000',
        'two{node="node-a"} 2.0 1000.000',
        'one{node="node-a"} 1.5 1015.062',
        'two{node="node-a"} +Inf 1015.062',
    ]
    assert (recorder.samples, recorder.nodes, recorder.take()) == (4, 1, b"")


def test_absent_and_several_series_are_nan_and_unread_ones_have_no_line():
    recorder = Recorder(lambda: 1000.0)
    recorder.report("node-a", Delta({"one": 1.0}, absent=["two"], several={"three": 2}), 0)
    assert lines(recorder) == [
        'two{node="node-a"} NaN 1000.000',
        'three{node="node-a"} NaN 1000.000',
        'one{node="node-a"} 1.0 1000.000',
    ]
    recorder.report("node-a", Delta(unread=["one"]), 0)
    assert [line.partition("{")[0] for line in lines(recorder)] == ["two", "three"]


def test_a_node_must_send_a_full_report_first():
    recorder = Recorder()
    assert not recorder.knows("node-a")
    recorder.report("node-a", Delta(), 0)
    assert recorder.knows("node-a")


def test_metric_that_the_node_never_had_is_recorded_as_such_until_that_is_not_known():
    recorder = Recorder(lambda: 1000.0)
    absent = 'plimsoll_metric_absent{node="node-a",metric="gpu"} 1 1000.000'
    recorder.report("node-a", Delta(absent=["gpu"], never_had=frozenset({"gpu"})), 0)
    assert lines(recorder) == [absent]
    recorder.report("node-a", Delta(), 0)
    assert lines(recorder) == [absent]
    recorder.report("node-a", Delta(unread=["gpu"]), 0)
    assert lines(recorder) == ['gpu{node="node-a"} NaN 1000.000']
    recorder.report("node-a", Delta({"gpu": 1.0}), 0)
    assert lines(recorder) == ['gpu{node="node-a"} 1.0 1000.000']
    recorder.report("node-a", Delta(absent=["gpu"]), 0)
    assert lines(recorder) == ['gpu{node="node-a"} NaN 1000.000']

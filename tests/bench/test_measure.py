"""Process measurements of benchmarks, and their verdicts."""

import os

import pytest

from bench import measure


def test_cpu_time_of_a_process_grows_with_its_work():
    before = measure.cpu_seconds(os.getpid())
    while os.times().user + os.times().system < before + 0.05:
        sum(range(1000))
    assert measure.cpu_seconds(os.getpid()) - before > 0.02


def test_cpu_time_of_a_missing_process_is_an_error():
    with pytest.raises(OSError):  # noqa: PT011
        measure.cpu_seconds(2**22 + 1)


def test_peak_memory_counts_from_the_last_reset():
    pid = os.getpid()
    block = bytearray(b"x" * 80_000_000)
    assert measure.memory_mb(pid, "VmHWM") >= measure.memory_mb(pid) - 1
    before = measure.memory_mb(pid, "VmHWM")
    del block
    measure.forget_peak(pid)
    assert measure.memory_mb(pid, "VmHWM") < before - 60


@pytest.mark.parametrize(
    ("aim", "met"),
    [
        ("p50_ms <= 2", True),
        ("p50_ms <= 1.9", False),
        ("cpu_ratio >= 10, p50_ms <= 2", True),
        ("cpu_ratio >= 10.5, p50_ms <= 2", False),
        ("agent.rss <= 45", True),
        ("agent.rss <= 44", False),
    ],
)
def test_target_is_met_when_all_its_parts_are(aim, met):
    line = measure.judged({"p50_ms": 2, "cpu_ratio": 10, "agent": {"rss": 45}}, aim)
    assert (line["met"], line["aim"]) == (met, aim)


def test_target_in_loops_is_relative_to_this_machine():
    """A loop is measured with the line: on a core half as fast it takes twice as long, as does the rest."""
    line = measure.judged({"p50_ms": 1e6}, "p50_ms <= 2 loops")
    assert line["loop_ms"] > 0
    assert not line["met"]
    assert measure.judged({"p50_ms": 1e-6, "rss": 3}, "p50_ms <= 2 loops, rss <= 3")["met"]
    with pytest.raises(ValueError, match="unknown unit"):
        measure.judged({"p50_ms": 1}, "p50_ms <= 2 ms")


def test_nothing_is_judged_without_a_target():
    assert measure.judged({"p50_ms": 2}, "") == {"p50_ms": 2}


def test_target_for_an_unmeasured_value_is_an_error():
    with pytest.raises(KeyError):
        measure.judged({"p50_ms": 2}, "p99_ms <= 5")


def test_percentile_is_an_observed_value():
    assert measure.percentile([5, 1, 3], 0.99) == 5
    assert measure.percentile(list(range(1000)), 0.99) == 990

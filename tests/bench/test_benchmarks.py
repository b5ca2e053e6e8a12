"""Benchmarks at a small size run and print valid lines."""

import shutil
from pathlib import Path

import pytest

from bench import extender, measure
from bench.extender import Repeat, Rest
from bench.scene import Sizes
from tests.bench import conftest

BENCH = Path(extender.__file__).parent

pytestmark = [
    pytest.mark.features("evictions", "history", "pages"),
    pytest.mark.e2e,
    pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not on PATH"),
]


def lines_of(name, *arguments):
    return conftest.lines_of(BENCH / f"{name}.py", *arguments)


def test_extender_benchmark_runs():
    lines = lines_of("extender", "--nodes=40", "--policies=4", "--requests=8", "--seconds=0.9")
    cases = [case for act in extender.acts(Sizes(40, 4, 8, 0.9)) for case in act.cases]
    assert [line["case"] for line in lines] == [case.name for case in cases]
    for line, case in zip(lines, cases, strict=True):
        assert ("met" in line) == bool(case.aim)
        if isinstance(case, Rest):
            check_rest(line)
        else:
            check_requests(line, case)


def check_requests(line, case):
    assert line["nodes"] == case.count
    assert line["requests"] > 0
    assert 0 < line["p50_ms"] <= line["p99_ms"] <= line["max_ms"]
    assert line["cpu_ms"] > 0
    assert line["peak_rss_mb"] > 20
    assert ("cpu_ratio" in line) == isinstance(case, Repeat)


def check_rest(line):
    assert (line["nodes"], line["connected"], line["lost_streams"]) == (40, 40, 0)
    assert line["rss_mb"] > 20
    assert {"core_percent", "reports_per_s", "decisions_per_s"} <= line.keys()


def test_decide_benchmark_runs():
    lines = lines_of("decide", "--nodes=50", "--policies=4", "--repeats=2")
    assert lines
    for line in lines:
        assert line["benchmark"] == "decide"
        assert ("met" in measure.judged(line, line.get("aim", ""))) == ("aim" in line)
    assert any("aim" in line for line in lines)


def test_stalls_benchmark_runs():
    lines = lines_of(
        "stalls", "--nodes=40", "--metrics=20", "--policies=4", "--rules=6", "--seconds=0.3"
    )
    cases = ["start", "rest", "readings", "explain", "explain-pods", "browser", "metrics", "live"]
    assert [line["case"] for line in lines] == cases
    assert lines[2]["history_ms_per_s"] > 0
    assert lines[-1]["live_ms_per_s"] > 0
    for line in lines:
        assert 0 < line["p999_ms"] <= line["longest_ms"]
        assert line["callbacks"] > line["over_5_ms"]
        assert "met" in line


def test_startup_benchmark_runs():
    lines = lines_of("startup", "--nodes=40", "--policies=4", "--repeats=1")
    assert [line["case"] for line in lines] == ["imports", "imports", "ready"]
    assert all(line["cpu_ms"] > 0 and "met" in line for line in lines)
    assert lines[-1]["unqueued_ms"] <= lines[-1]["ready_ms"]


def test_aftermath_benchmark_runs():
    lines = {line["case"]: line for line in lines_of("aftermath", "--rounds=1")}
    assert len(lines) == 10
    for line in lines.values():
        for source in ("cluster", "without_events", "log", "history", "restarted", "file"):
            assert 0 <= line[source] <= line["facts"]
        assert line["without_events"] <= line["cluster"]
    reading = lines["and with which reading"]
    assert (reading["log"], reading["history"], reading["file"]) == (0, 1, 1)


def test_signals_benchmark_runs():
    lines = lines_of("signals", "--faults=1")
    assert [line["case"] for line in lines] == ["hung", "xid", "ext4"]
    for line in lines:
        assert 0 < line["p50_ms"] <= line["p99_ms"] <= line["max_ms"]
        assert "met" in line


def test_scrape_benchmark_runs():
    [line] = lines_of("scrape", "--scrapes=3")
    agent = line["agent"] if "agent" in line else line["defaults"]["agent"]
    assert agent["samples"] > 100
    assert agent["cpu_ms"] > 0


def test_idle_agent_benchmark_runs():
    """Every program is scraped within 12 s, node_exporter last."""
    lines = {line["case"]: line for line in lines_of("agent_idle", "--seconds=13", "--warm-up=1")}
    assert list(lines) == ["scraped", "rules", "stream"]
    assert all(line["percent_of_a_core"] > 0 and line["rss_mib"] > 10 for line in lines.values())
    assert lines["stream"]["reports"] > 0


def test_backtest_benchmark_runs():
    plain, timed, memory, *texts = lines_of("backtest", "--nodes=20", "--days=1")
    assert plain["steps"] == timed["steps"] == 5760
    assert plain["cpu_s"] > 0
    assert memory["mb"] > 0
    assert all(line["lines_per_s"] > 0 for line in texts)


def test_detection_benchmark_runs():
    lines = lines_of("detection/run", "--nodes=100", "--days=2", "--seeds=1")
    assert {line["detector"] for line in lines} == {"peers", "constant", "z-score"}
    assert lines[-1]["metric"] == "all that suit"
    assert all(0 <= line["f1"] <= 1 for line in lines)

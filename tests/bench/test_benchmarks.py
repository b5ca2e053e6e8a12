"""Benchmarks at a small size: each runs, and prints lines that can be relied on."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench import extender

BENCH = Path(extender.__file__).parent

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not on PATH"),
]


def lines_of(name, *arguments):
    argv = [sys.executable, "-P", str(BENCH / f"{name}.py"), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_extender():
    small = ("--nodes=40", "--policies=4", "--requests=8", "--seconds=1")
    lines = lines_of("extender", *small)
    sizes = extender.Sizes(40, 4, 8, 1.0)
    cases = [case for act in extender.acts(sizes) for case in act.cases]
    assert [line["case"] for line in lines] == [case.name for case in cases]
    for line, case in zip(lines, cases, strict=True):
        assert line["nodes"] == case.count
        assert line["requests"] > 0
        assert 0 < line["p50_ms"] <= line["p99_ms"] <= line["max_ms"]
        assert line["cpu_ms"] > 0
        assert line["peak_rss_mb"] > 20
        assert ("met" in line) == bool(case.aim)
        assert ("cpu_ratio" in line) == isinstance(case, extender.Case)


def test_idle():
    lines = lines_of("idle", "--nodes=20", "--policies=4", "--seconds=0.3")
    assert [line["case"] for line in lines] == [
        "0% of a report is new",
        "1% of a report is new",
        "100% of a report is new",
    ]
    for line in lines:
        assert line["connected"] == 20
        assert line["lost_streams"] == 0
        assert line["rss_mb"] > 20
        assert {"core_percent", "reports_per_s", "decisions_per_s", "met"} <= line.keys()

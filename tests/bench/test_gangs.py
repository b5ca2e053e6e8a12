"""The benchmark of gangs at a small size runs and prints valid lines."""

from pathlib import Path

import pytest

from bench import gangs
from tests.bench.conftest import lines_of

pytestmark = pytest.mark.e2e


def test_gangs_benchmark_runs():
    lines = lines_of(Path(gangs.__file__), "--nodes=40", "--pods=60", "--repeats=2")
    assert [line["case"] for line in lines[::2]] == [case.name for case in gangs.CASES]
    for line in lines:
        assert line["gangs"] == 3
        assert 0 < line["p50_ms"] <= line["max_ms"]
        assert ("met" in line) == (line["what"] == "steady")

"""The placement benchmark at a small size."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.placement import table
from tests.patience import PATIENCE

TABLE = Path(table.__file__)


def lines_of(*arguments):
    argv = [sys.executable, "-P", str(TABLE), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
    return {line["system"]: line for line in map(json.loads, done.stdout.splitlines())}


@pytest.mark.e2e
def test_table_shows_that_ranking_by_the_last_reading_herds():
    lines = lines_of("--scenarios=burst", "--seeds=1", "--systems=default,plimsoll-before-w10")
    assert lines["default"]["engine"] == "model"
    assert lines["default"]["at_once"] == 5
    assert lines["plimsoll-before-w10"]["at_once"] > 30
    assert lines["plimsoll-before-w10"]["most_percent"] > 200


def test_unreadable_traces_are_an_error(tmp_path):
    (tmp_path / "day.csv").write_text("1,2\n")
    with pytest.raises(SystemExit, match=r"day\.csv: line 1: expected 288 percentages"):
        list(table.measured(traces=(str(tmp_path / "day.csv"),), systems=("default",), workers=1))


def test_unknown_system_is_an_error():
    with pytest.raises(SystemExit, match="unknown: nomad"):
        list(table.measured(systems=("nomad",)))

"""The comparison of two checkouts: each runs its own code, and the least figure of all rounds counts."""

import subprocess
import sys

import pytest

from bench import compare


def checkout(folder, *statements):
    """Make a checkout whose benchmark of the start runs these statements."""
    python = folder / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    program = folder / "bench/startup.py"
    program.parent.mkdir()
    program.write_text("\n".join(("import json, pathlib", *statements)))
    return str(folder)


def test_least_figures_of_both_checkouts_are_compared(tmp_path):
    faster_each_time = (
        "runs = pathlib.Path('runs')",
        "runs.write_text(runs.read_text() + 'x' if runs.exists() else 'x')",
        "line = {'case': 'ready', 'cpu_ms': 10 / len(runs.read_text()), 'p50_ms': 3}",
        "print(json.dumps(line))",
    )
    base = checkout(tmp_path / "base", *faster_each_time)
    head = checkout(tmp_path / "head", "print(json.dumps({'case': 'ready', 'cpu_ms': 4}))")
    lines = [*compare.measured(base, head, rounds=2, only=("startup",))]
    assert lines == [{"case": "ready", "figure": "cpu_ms", "base": 5, "head": 4, "ratio": 0.8}]


def test_failing_benchmark_ends_the_comparison(tmp_path):
    base = checkout(tmp_path / "base", "raise SystemExit(1)")
    with pytest.raises(subprocess.CalledProcessError):
        list(compare.measured(base, rounds=1, only=("startup",)))

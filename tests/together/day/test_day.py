"""A simulated day with faults, in minutes: two replicas wired as in the service, simulated time, the sandbox's API.

It runs in a process with its own clock. `PLIMSOLL_SEED` sets the seed; the same seed repeats the same day.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

SIMULATION = Path(__file__).parent / "simulation"
ROOT = Path(__file__).parents[3]

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.features("extender", "labels", "evictions", "status", "gangs"),
]


def live(stderr, **given):
    """The simulation's output: the measurements of each quiet period, and the violations at the end."""
    command = [sys.executable, "-P", str(SIMULATION)]
    command += [f"--{name}={value}" for name, value in given.items()]
    environment = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0"}
    with stderr.open("wb") as log:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
    again = f"again: PYTHONHASHSEED=0 {' '.join(command)}"
    end = stderr.read_text(errors="replace")[-3000:]
    assert done.returncode == 0, f"{again}\n{end}"
    *calms, told = map(json.loads, done.stdout.splitlines())
    wrong = "\n".join(told["wrong"])
    assert not wrong, f"{again}\n{wrong}"
    return calms, told


@pytest.fixture
def seed():
    return int(os.environ.get("PLIMSOLL_SEED", "20"))


def test_day_with_faults_ends_as_decided_and_leaks_nothing(soak, seed, tmp_path):
    size = {"seconds": 86_400, "part": 300, "pause": 3} if soak else {"seconds": 180, "part": 60}
    calms, told = live(tmp_path / "stderr", seed=seed, **size)
    assert told["answers"] > size["seconds"], "the scheduler was always answered"
    assert told["label_writes"] > size["seconds"] / 20, "there were events"
    assert told["gates_lifted"] > 0, "gangs were released"
    if soak:
        assert told["evictions"] > 0, "pods were evicted"
    assert len({calm["files"] for calm in calms}) == 1, "open files"
    assert max(calm["tasks"] for calm in calms) < 2 * min(calm["tasks"] for calm in calms)
    if soak:
        half = len(calms) // 2
        for measure in ("blocks", "rss_kb", "tasks"):
            before, after = (
                statistics.median(calm[measure] for calm in calms[part])
                for part in (slice(half // 5, half), slice(half, None))
            )
            assert after < 1.05 * before, f"{measure}: {before} in the morning, {after} later"

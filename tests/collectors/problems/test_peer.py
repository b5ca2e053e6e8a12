"""The same log lines to a real node-problem-detector and to the collector: the same counters, gauges and conditions.

Skipped unless `node-problem-detector` is on PATH or NODE_PROBLEM_DETECTOR names it.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.problems import Options, Problems
from tests.collectors.problems.recorded import HARMLESS, KERNEL
from tests.patience import PATIENCE

PROGRAM = os.environ.get("NODE_PROBLEM_DETECTOR") or shutil.which("node-problem-detector")
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not PROGRAM, reason="no node-problem-detector on PATH"),
]

RULES = [
    {"type": "temporary", "reason": "OOMKilling", "pattern": r"Killed process \d+ (.+) total-vm:\d+kB.*"},
    {"type": "temporary", "reason": "TaskHung", "pattern": r"task \S+:\w+ blocked for more than \w+ seconds\."},
    {"type": "temporary", "reason": "Ext4Error", "pattern": "EXT4-fs error .*"},
    {"type": "temporary", "reason": "TwoLines", "pattern": "(?s)EXT4-fs warning .*\n.*Buffer I/O error .*"},
    {"type": "temporary", "reason": "NeverSeen", "pattern": "blocked for more"},
    {"type": "permanent", "condition": "KernelDeadlock", "reason": "DockerHung", "pattern": r"task docker:\w+ blocked for more than \w+ seconds\."},
    {"type": "permanent", "condition": "XfsShutdown", "reason": "XfsHasShutdown", "pattern": "XFS .* Shutting down filesystem.?"},
    {"type": "permanent", "condition": "Untouched", "reason": "NeverBroken", "pattern": "never.*"},
]  # fmt: skip
LINES = [*HARMLESS, *KERNEL.values(), KERNEL["OOMKilling"], KERNEL["DockerHung"], *HARMLESS]
SERIES = re.compile(r"^(problem_(?:counter|gauge)\{.*\}) (\S+)$", re.MULTILINE)


def configuration(log: Path) -> str:
    """A monitor of a log file, as both read it."""
    healthy = {"reason": "Healthy", "message": "healthy"}
    conditions = [{"type": t, **healthy} for t in ("KernelDeadlock", "XfsShutdown", "Untouched")]
    return json.dumps(
        {
            "plugin": "filelog",
            "pluginConfig": {
                "timestamp": "^.{15}",
                "message": r"kernel: \[.*\] (.*)",
                "timestampFormat": "Jan _2 15:04:05",
            },
            "logPath": str(log),
            "lookback": "5m",
            "bufferSize": 10,
            "source": "kernel-monitor",
            "metricsReporting": True,
            "conditions": conditions,
            "rules": RULES,
        }
    )


def series(text: str) -> dict[str, float]:
    """The series of problems in an exposition, with sorted labels."""
    found = {}
    for name, value in SERIES.findall(text):
        metric, _, labels = name.rstrip("}").partition("{")
        found[f"{metric}{{{','.join(sorted(labels.split(',')))}}}"] = float(value)
    return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log whose lines are of now."""
    now = time.strftime("%b %e %H:%M:%S")
    log = tmp_path / "kern.log"
    log.write_text("".join(f"{now} node kernel: [    1.0] {line}\n" for line in LINES))
    return log


@pytest.fixture
def detected(tmp_path: Path, log: Path) -> Iterator[str]:
    """The address of the metrics of a node-problem-detector that reads the log."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "monitor.json"
    config.write_text(configuration(log))
    command = [str(PROGRAM), "--enable-k8s-exporter=false", f"--prometheus-port={port}"]
    command += ["--port=0", f"--config.system-log-monitor={config}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        yield f"http://127.0.0.1:{port}/metrics"
        running.terminate()


def until_still(read) -> dict[str, float]:
    """Return the series once the last line was counted, and they do not change any more."""
    end, before = time.monotonic() + PATIENCE, None
    while (found := read()) != before or not found.get('problem_counter{reason="OOMKilling"}'):
        assert time.monotonic() < end, found
        before = found
        time.sleep(0.5)
    return found


def scraped(address: str) -> dict[str, float]:
    try:
        with urllib.request.urlopen(address) as answer:
            return series(answer.read().decode())
    except OSError:
        return {}


def test_counters_and_gauges_are_those_of_node_problem_detector(
    tmp_path: Path, log: Path, detected: str, values
) -> None:
    theirs = until_still(lambda: scraped(detected))
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("b1\n")
    (tmp_path / "proc/1").mkdir()
    (tmp_path / "proc/1/mountinfo").write_text("29 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
    rooted = tmp_path / "ours.json"
    rooted.write_text(configuration(Path("/") / log.relative_to(tmp_path)))
    collector = Problems(
        Host(procfs=tmp_path / "proc", rootfs=tmp_path),
        Options(problems_config=(str(rooted),)),
    )
    ours = until_still(
        lambda: series("".join(f"{k} {v}\n" for k, v in values(collector.collect()).items()))
    )
    assert theirs['problem_gauge{reason="DockerHung",type="KernelDeadlock"}'] == 1
    assert theirs['problem_counter{reason="OOMKilling"}'] == 2
    assert ours == theirs

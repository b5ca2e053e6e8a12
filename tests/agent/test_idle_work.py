"""What an idle agent does for the shipped rules and a stream of five recorded metrics, counted over one minute.

Counts hold on any machine: the agent reads a copy of a server's files, on a clock of the test.
"""

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent import config
from agent.rules.clock import Clock
from agent.rules.engine import RuleEngine
from agent.scrape.runner import CollectorRunner
from agent.stream.snapshot import SnapshotReader
from collectors import registry
from collectors.interface.kernelfiles import KernelFiles
from collectors.interface.sample import Collector, Family
from wire import codec
from wire import telemetry_pb2 as pb

ROOT = Path(__file__).resolve().parents[2]
METRICS = [
    "node_cpu_headroom_ratio",
    "node_memory_headroom_ratio",
    "node_network_headroom_ratio",
    "node_disk_headroom_ratio",
    "node_pressure_memory_waiting_60s_ratio",
]
"""One recorded metric of each of five groups."""
OWN_FILES = {"filesystem", "time", "timex", "uname"}  # they describe the kernel that runs the tests


@dataclass
class Work:
    """Counts of what the agent has done."""

    runs: Counter[str] = field(default_factory=Counter)
    families: int = 0
    files: int = 0
    reports: int = 0
    bytes: int = 0


class Reads(threading.local):
    """How many files this thread has read: other tests leave threads behind that read, too."""

    count = 0


@dataclass
class Counting:
    """A collector whose runs and results are counted."""

    name: str
    collector: Collector
    work: Work
    reads: Reads

    def collect(self) -> Iterable[Family]:
        self.work.runs[self.name] += 1
        before = self.reads.count
        for family in self.collector.collect():
            self.work.families += 1
            yield family
        self.work.files += self.reads.count - before


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def reads(monkeypatch) -> Reads:
    counted, content = Reads(), KernelFiles._content

    def counting(*arguments):
        counted.count += 1
        return content(*arguments)

    monkeypatch.setattr(KernelFiles, "_content", counting)
    return counted


@pytest.fixture
def minute(xeon, work, reads):
    """Return a function that lets a minute pass, with or without a stream."""
    settings = config.parse([f"--rules.file={ROOT}/deploy/rules/*.yaml"], {}, hostname="xeon")
    chosen = {name: o for name, o in settings.collectors.items() if name not in OWN_FILES}
    collector_runner = CollectorRunner(
        {name: Counting(name, c, work, reads) for name, c in registry.build(xeon, chosen).items()}
    )
    now = [600_000]
    clock = Clock(boot=lambda: now[0], wall=lambda: now[0])
    recorder = RuleEngine(collector_runner, settings.rules, clock=clock)

    def passes(metrics: list[str]) -> None:
        readings, last = SnapshotReader(collector_runner, recorder), None
        if metrics:
            readings.want(metrics)
        for warm_up in (True, False):
            if not warm_up:
                vars(work).update(vars(Work()))
            for second in range(60):
                now[0] += 1000
                recorder.step()
                if metrics and second % 5 == 0:  # --syncPeriod's default
                    found = readings.read(metrics)
                    report = codec.encode(pb.Report(node_name="xeon"), metrics, found, last)
                    work.reports, work.bytes = work.reports + 1, work.bytes + report.ByteSize()
                    last = found

    yield passes
    collector_runner.close()


def test_rules_alone_read_their_sources_at_the_interval_of_their_groups(minute, work) -> None:
    minute([])
    assert {name: work.runs[name] for name in ("meminfo", "netdev", "edac", "loadavg")} == {
        "meminfo": 12,
        "netdev": 4,
        "edac": 1,
        "loadavg": 0,
    }
    assert work.files <= 800
    assert work.families <= 1_400


def test_stream_reads_each_second_or_two_only_what_its_metrics_are_made_of(minute, work) -> None:
    minute(METRICS)
    assert {name for name, runs in work.runs.items() if runs >= 60} == {"meminfo", "textfile"}
    assert {name: work.runs[name] for name in ("cpu", "diskstats", "netdev", "pressure")} == {
        "cpu": 36,  # every other second, and with groups of 5 s
        "diskstats": 32,  # and with groups of 15 s
        "netdev": 32,
        "pressure": 36,
    }
    assert work.runs["netclass"] == 12
    assert work.files <= 1_900
    assert work.families <= 6_400
    assert (work.reports, work.bytes) == (12, 72)

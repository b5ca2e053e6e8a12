"""Stream snapshots: collected metrics, recorded metrics, and unknown values."""

import pytest

from agent.rules.clock import Clock
from agent.rules.engine import RuleEngine
from agent.rules.options import RuleOptions
from agent.scrape.runner import CollectorRunner
from agent.stream.snapshot import SnapshotReader
from collectors.interface.sample import CollectorError, Family, Sample
from wire.codec import Snapshot

RULES = """
groups:
- name: g
  rules:
  - {record: node_free_ratio, expr: node_memory_MemAvailable_bytes / 100}
  - {record: node_each, expr: node_load1}
"""


@pytest.fixture
def memory(source, family):
    return source([family("node_memory_MemAvailable_bytes", 40)])


@pytest.fixture
def load(source):
    samples = tuple(Sample("node_load1", (("i", i),), 1.0) for i in "abc")
    return source([Family("node_load1", "gauge", "x", samples)])


@pytest.fixture
def text(source):
    return source()


@pytest.fixture
def collector_runner(memory, load, text):
    made = CollectorRunner({"meminfo": memory, "loadavg": load, "textfile": text})
    yield made
    made.close()


@pytest.fixture
def tick(collector_runner, tmp_path):
    """Advance the rule engine by a second."""
    (tmp_path / "r.yaml").write_text(RULES)
    now = [1_000_000]
    options = RuleOptions(files=(str(tmp_path / "r.yaml"),), interval=1.0)
    recorder = RuleEngine(
        collector_runner, options, clock=Clock(boot=lambda: now[0], wall=lambda: now[0])
    )

    def step() -> RuleEngine:
        now[0] += 1000
        recorder.step()
        return recorder

    return step


def test_recorded_metrics_are_read_like_collected_ones(collector_runner, tick) -> None:
    readings = SnapshotReader(collector_runner, tick())
    asked = ["free_ratio", "node_free_ratio", "each", "load1", "missing"]
    assert readings.read(asked) == Snapshot(
        {"free_ratio": 0.4, "node_free_ratio": 0.4}, {"each": 3, "load1": 3}
    )


def test_rule_results_of_a_failed_collector_are_unread_under_either_name(
    collector_runner, memory, tick
) -> None:
    tick()
    memory.error, memory.families = CollectorError("EIO"), ()
    readings = SnapshotReader(collector_runner, tick())
    found = readings.read(["free_ratio", "node_free_ratio", "each", "missing"])
    assert found == Snapshot({}, {"each": 3}, frozenset({"free_ratio", "node_free_ratio"}))


def test_collected_metric_overrides_the_recorded_one(collector_runner, text, tick, family) -> None:
    readings = SnapshotReader(collector_runner, tick())
    text.families = [family("node_free_ratio", 0.9)]
    assert readings.read(["free_ratio"]) == Snapshot({"free_ratio": 0.9})


def test_textfile_metric_counts_without_the_prefix_too(
    collector_runner, text, tick, family
) -> None:
    readings = SnapshotReader(collector_runner, tick())
    text.families = [family("free_ratio", 0.9)]
    assert readings.read(["free_ratio", "node_free_ratio"]) == Snapshot(
        {"free_ratio": 0.9, "node_free_ratio": 0.4}
    )


def test_unreadable_textfile_metric_is_not_replaced(collector_runner, text, tick, family) -> None:
    readings = SnapshotReader(collector_runner, tick())
    text.families = [family("node_free_ratio", 0.9)]
    readings.read(["free_ratio"])
    text.error, text.families = CollectorError("EIO"), ()
    assert readings.read(["free_ratio"]) == Snapshot({}, {}, frozenset({"free_ratio"}))
    text.error = None
    assert readings.read(["free_ratio"]) == Snapshot({"free_ratio": 0.4})


def test_change_of_a_subscribed_recorded_value_is_notified(
    collector_runner, memory, tick, family
) -> None:
    recorder = tick()
    readings = SnapshotReader(collector_runner, recorder)
    changes: list[int] = []
    readings.open(lambda: changes.append(1))
    readings.want(["free_ratio"])
    readings.read(["free_ratio"])
    tick()
    assert changes == []
    memory.families = [family("node_memory_MemAvailable_bytes", 80)]
    tick()
    assert changes == [1]
    readings.close()
    memory.families = [family("node_memory_MemAvailable_bytes", 40)]
    tick()
    assert changes == [1]


def test_only_sources_count_without_rules(collector_runner) -> None:
    readings = SnapshotReader(collector_runner)
    readings.open(lambda: None)
    readings.want(["load1"])
    assert readings.read(["load1"]) == Snapshot({}, {"load1": 3})
    readings.close()


def test_similar_series_are_found_in_collected_and_recorded_ones(collector_runner, tick):
    readings = SnapshotReader(collector_runner, tick())
    assert readings.similar(
        ["memory_MemAvailable_byte", "node_load_1", "free_ration", "queue"]
    ) == {
        "memory_MemAvailable_byte": ["memory_MemAvailable_bytes"],
        "node_load_1": ["node_load1"],
        "free_ration": ["free_ratio"],
        "queue": [],
    }
    assert len(readings.similar([f"m{number}" for number in range(60)])) == 50


def test_value_written_by_an_operator_has_no_cause_of_a_rule(
    collector_runner, memory, text, family, tick, tmp_path
) -> None:
    with (tmp_path / "r.yaml").open("a") as rules:
        rules.write("  - {record: node_free_ratio_cause, labels: {rule: r}, expr: vector(1)}\n")
    readings = SnapshotReader(collector_runner, tick())
    assert readings.read(["free_ratio"]).causes == {"free_ratio": "r"}
    text.families = (family("node_free_ratio", 0.1),)
    assert readings.read(["free_ratio"]) == Snapshot({"free_ratio": 0.1})

"""Stream snapshots: collected metrics, recorded metrics, and unknown values."""

import pytest

from agent.rules.clock import Clock
from agent.rules.engine import RuleEngine
from agent.rules.options import RuleOptions
from agent.scrape.runner import CollectorRunner
from agent.stream.snapshot import SnapshotReader
from collectors.interface.sample import (
    CollectorError,
    Family,
    Omission,
    Sample,
    SourceAbsentError,
)
from collectors.textfile import Options, TextFile
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
        {"free_ratio": 0.4, "node_free_ratio": 0.4},
        {"each": 3, "load1": 3},
        never_had=frozenset({"missing"}),
    )


def test_rule_results_of_a_failed_collector_are_unread_under_either_name(
    collector_runner, memory, tick
) -> None:
    tick()
    memory.error, memory.families = CollectorError("EIO"), ()
    readings = SnapshotReader(collector_runner, tick())
    found = readings.read(["free_ratio", "node_free_ratio", "each", "missing"])
    assert found == Snapshot(
        {},
        {"each": 3},
        frozenset({"free_ratio", "node_free_ratio"}),
        never_had=frozenset({"missing"}),
    )


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


@pytest.fixture
def broken(source):
    """A source of files, one of which has an error."""

    class WithOmissions(source):
        def omissions(self):
            return [Omission("a.prom", "syntax", "line 1")]

    return WithOmissions()


def never_had(reader, *metrics):
    return reader.read(metrics).never_had


def test_metric_that_no_source_has_is_absent_since_the_start(collector_runner):
    readings = SnapshotReader(collector_runner)
    assert never_had(readings, "gpu_hot", "load1", "node_gpu_hot") == {"gpu_hot", "node_gpu_hot"}


@pytest.mark.parametrize("asked", ["gpu_hot", "node_gpu_hot"])
def test_lost_metric_is_not_absent_since_the_start(collector_runner, text, family, asked):
    text.families = [family("node_gpu_hot", 90)]
    collector_runner.run()  # not for the stream: it reads the metric for the first time when it is gone
    text.families = ()
    assert never_had(SnapshotReader(collector_runner), asked) == set()


def test_family_without_samples_was_never_there(collector_runner, text):
    text.families = [Family("node_gpu_hot", "gauge", "x", ())]
    collector_runner.run()
    assert never_had(SnapshotReader(collector_runner), "gpu_hot") == {"gpu_hot"}


def test_samples_of_a_histogram_were_there(collector_runner, text):
    samples = (Sample("wait_bucket", (("le", "1"),), 1.0), Sample("wait_sum", (), 1.0))
    text.families = [Family("wait", "histogram", "x", samples)]
    collector_runner.run()
    text.families = ()
    assert never_had(SnapshotReader(collector_runner), "wait_sum") == set()


def test_unread_metric_is_not_absent_since_the_start(collector_runner, text):
    text.error = CollectorError("EIO")
    readings = SnapshotReader(collector_runner)
    found = readings.read(["gpu_hot"])
    assert (found.unread, found.never_had) == ({"gpu_hot"}, set())
    text.error = None
    assert never_had(readings, "gpu_hot") == {"gpu_hot"}


def test_metric_of_a_collector_that_is_off_was_not_looked_for(collector_runner):
    metrics = ["cpu_vulnerabilities_info", "memory_numa_MemFree", "DCGM_FI_DEV_GPU_TEMP"]
    assert never_had(SnapshotReader(collector_runner), *metrics) == set()


def test_metric_of_a_collector_without_source_is_absent(source, family):
    absent = source(error=SourceAbsentError("no NVIDIA driver"))
    runner = CollectorRunner({"gpu": absent})
    assert never_had(SnapshotReader(runner), "DCGM_FI_DEV_GPU_TEMP", "gpu_hot") == {
        "DCGM_FI_DEV_GPU_TEMP"
    }
    absent.error, absent.families = None, [family("DCGM_FI_DEV_GPU_TEMP", 40)]
    assert never_had(SnapshotReader(runner), "DCGM_FI_DEV_GPU_TEMP") == set()
    absent.error, absent.families = SourceAbsentError("no NVIDIA driver"), ()
    assert never_had(SnapshotReader(runner), "DCGM_FI_DEV_GPU_TEMP") == set()
    runner.close()


def test_file_with_an_error_may_have_any_metric(broken, source):
    runner = CollectorRunner(
        {"textfile": broken, "gpu": source(error=SourceAbsentError("no NVIDIA driver"))}
    )
    readings = SnapshotReader(runner)
    assert never_had(readings, "gpu_hot", "DCGM_FI_DEV_GPU_TEMP") == {"DCGM_FI_DEV_GPU_TEMP"}
    runner.close()


def test_agent_without_directories_looks_for_no_metric_of_files(tmp_path):
    runner = CollectorRunner({"textfile": TextFile(Options())})
    assert never_had(SnapshotReader(runner), "gpu_hot") == set()
    runner.close()
    options = Options(textfile_directories=(str(tmp_path),))
    runner = CollectorRunner({"textfile": TextFile(options)})
    assert never_had(SnapshotReader(runner), "gpu_hot") == {"gpu_hot"}
    runner.close()


GPU_RULES = """
groups:
- name: g
  rules:
  - {record: node_gpu_ratio, expr: DCGM_FI_DEV_GPU_UTIL / 100}
  - {record: node_gpu_free, expr: 1 - node_gpu_ratio}
  - {record: node_load_high, expr: node_load1 > 5}
  - {record: node_circle, expr: node_circle + 1}
"""


@pytest.fixture
def gpu(source):
    return source(error=SourceAbsentError("no NVIDIA driver"))


@pytest.fixture
def gpu_rules(load, text, gpu, tmp_path):
    """A reader beside rules over GPUs, and a function that evaluates them."""
    (tmp_path / "r.yaml").write_text(GPU_RULES)
    runner = CollectorRunner({"loadavg": load, "textfile": text, "gpu": gpu})
    now = [1_000_000]
    options = RuleOptions(files=(str(tmp_path / "r.yaml"),), interval=1.0)
    engine = RuleEngine(runner, options, clock=Clock(boot=lambda: now[0], wall=lambda: now[0]))

    def step():
        now[0] += 1000
        engine.step()

    step(), step(), step()
    yield SnapshotReader(runner, engine), step
    runner.close()


def test_recorded_metric_is_absent_if_an_input_is(gpu_rules):
    readings, _ = gpu_rules
    asked = ["gpu_ratio", "node_gpu_free", "load_high", "circle"]
    found = readings.read(asked)
    assert (dict(found.values), found.unread) == ({}, set())
    assert found.never_had == {"gpu_ratio", "node_gpu_free"}


def test_lost_result_of_a_rule_is_not_absent_since_the_start(gpu_rules, gpu, family):
    readings, step = gpu_rules
    gpu.error, gpu.families = None, [family("DCGM_FI_DEV_GPU_UTIL", 50)]
    step(), step()
    assert readings.read(["gpu_ratio", "gpu_free"]).values == {"gpu_ratio": 0.5, "gpu_free": 0.5}
    gpu.error, gpu.families = SourceAbsentError("no NVIDIA driver"), ()
    step(), step()
    found = readings.read(["gpu_ratio", "gpu_free"])
    assert (dict(found.values), found.never_had) == ({}, set())


def test_any_metric_may_have_been_there_after_more_names_than_are_kept(
    collector_runner, text, family
):
    text.families = [family(f"x{number}", 1) for number in range(50_001)]
    readings = SnapshotReader(collector_runner)
    assert never_had(readings, "gpu_hot") == set()


def test_prefix_node_is_optional_on_either_side(collector_runner, text, family):
    text.families = [family("health", 2), family("node_fan", 3)]
    readings = SnapshotReader(collector_runner)
    found = readings.read(["health", "node_health", "fan", "node_fan"])
    assert found == Snapshot({"health": 2, "node_health": 2, "fan": 3, "node_fan": 3})
    text.error = CollectorError("EIO")
    text.families = ()
    assert readings.read(["node_health"]).unread == {"node_health"}


def test_series_with_the_name_of_the_metric_precedes_the_others(
    collector_runner, text, family, tick
):
    text.families = [family("health", 2), family("node_health", 7), family("free_ratio", 0.9)]
    readings = SnapshotReader(collector_runner, tick())
    assert readings.read(["node_health", "node_free_ratio"]).values == {
        "node_health": 7,
        "node_free_ratio": 0.4,
    }


def test_several_series_without_the_prefix_have_no_single_value(collector_runner, text):
    samples = tuple(Sample("fan", (("i", i),), 1.0) for i in "ab")
    text.families = [Family("fan", "gauge", "x", samples)]
    assert SnapshotReader(collector_runner).read(["node_fan"]).several == {"node_fan": 2}

"""Which collectors are run for an evaluation, and how often."""

import pytest

from agent.rules.groups.file import Group, Rule
from agent.rules.inputs import RuleInputs
from agent.rules.promql.expression import parse
from agent.scrape.runner import CollectorRunner
from collectors.interface.sample import CollectorError

NAMES = frozenset({"netclass", "meminfo"})


@pytest.fixture
def sources(source, family):
    return {name: source([family(f"node_{name}", 1)]) for name in NAMES}


@pytest.fixture
def inputs(sources):
    collector_runner = CollectorRunner(sources)
    yield RuleInputs(collector_runner)
    collector_runner.close()


def test_slow_collectors_are_run_every_five_seconds_while_reuse_suffices(inputs, sources) -> None:
    for second in range(11):
        found = inputs.read(NAMES, 60_000 + 1000 * second, 0, reuse=True)
        assert {"node_netclass", "node_meminfo"} <= found.families.keys()
    assert sources["meminfo"].runs == 11
    assert sources["netclass"].runs == 3


def test_slow_collectors_are_run_each_time_otherwise(inputs, sources, family) -> None:
    inputs.read(NAMES, 60_000, 0, reuse=True)
    sources["netclass"].families = [family("node_netclass", 2)]
    found = inputs.read(NAMES, 61_000, 0)
    (read,) = found.families["node_netclass"]
    assert read.samples[0].value == 2
    assert sources["netclass"].runs == 2


def test_reused_samples_of_a_failed_collector_are_unread(inputs, sources) -> None:
    sources["netclass"].families, sources["netclass"].error = (), CollectorError("EIO")
    for second in range(2):
        assert inputs.read(NAMES, 60_000 + 1000 * second, 0, reuse=True).failed == {"netclass"}
    assert sources["netclass"].runs == 1


def test_collector_that_was_not_run_before_is_run(inputs, sources) -> None:
    inputs.read({"meminfo"}, 60_000, 0, reuse=True)
    assert "node_netclass" in inputs.read(NAMES, 61_000, 0, reuse=True).families


@pytest.mark.parametrize(
    ("expression", "milliseconds"),
    [
        ("node_memory_MemFree_bytes", 1000),
        ("rate(node_vmstat_oom_kill[10s])", 1000),
        ("rate(node_vmstat_oom_kill[1m])", 2000),
        ("rate(node_vmstat_oom_kill[1m]) / node_network_speed_bytes", 2000),
        ("rate(node_vmstat_oom_kill[1m]) / node_memory_MemFree_bytes", 1000),
        ("rate(from_a_file[1m]) / of_a_file", 1000),
        ("1 - recorded", 2000),
    ],
)
def test_averages_over_a_minute_are_evaluated_every_other_second(
    inputs, expression, milliseconds
) -> None:
    group = Group("g", (Rule("r", parse(expression)),))
    assert inputs.interval(group, {"recorded"}) == milliseconds

"""node_health_metric by the shipped rules: the agent's collectors over fixture files, on a fake clock."""

from pathlib import Path

import pytest

import agent.config
from agent.rules.clock import Clock
from agent.rules.engine import RuleEngine
from agent.scrape.runner import CollectorRunner
from collectors import registry

ROOT = Path(__file__).parents[2]
NOW = 1_770_000_000
UP = 10 * 86_400
"""Uptime of the node in seconds."""
COLLECTORS = ("edac", "kernel_hung", "stat", "textfile")
STAT = f"cpu  1 0 1 1 0 0 0 0 0 0\ncpu0 1 0 1 1 0 0 0 0 0 0\nintr 1\nctxt 1\nbtime {NOW - UP}\nprocesses 1\nprocs_running 1\nprocs_blocked 0\nsoftirq 1\n"


class Node:
    """A fixture machine with an agent's rule engine."""

    def __init__(self, root):
        self.root = root
        self.seconds = UP
        self.text = root / "text"
        self.edac = root / "sys/devices/system/edac/mc/mc0"
        for folder in (self.text, self.edac, root / "proc/sys/kernel"):
            folder.mkdir(parents=True)
        (root / "proc/stat").write_text(STAT)
        self.errors(0)
        self.hung(0)
        arguments = [
            f"--path.procfs={root}/proc",
            f"--path.sysfs={root}/sys",
            f"--collector.textfile.directory={self.text}",
            "--collector.disable-defaults",
            *(f"--collector.{name}" for name in COLLECTORS),
            f"--rules.file={ROOT}/deploy/rules/*.yaml",
        ]
        settings = agent.config.parse(arguments, {}, hostname="node")
        self.rounds = CollectorRunner(registry.build(settings.host, settings.collectors))
        clock = Clock(
            boot=lambda: self.seconds * 1000, wall=lambda: (NOW - UP + self.seconds) * 1000
        )
        self.recorder = RuleEngine(self.rounds, settings.rules, clock=clock)

    def errors(self, uncorrected):
        (self.edac / "ce_count").write_text("0\n")
        (self.edac / "ue_count").write_text(f"{uncorrected}\n")

    def hung(self, tasks):
        (self.root / "proc/sys/kernel/hung_task_detect_count").write_text(f"{tasks}\n")

    def after(self, seconds, step=1):
        for _ in range(0, seconds, step):
            self.seconds += step
            self.recorder.step()

    def values(self, name):
        """The series of a metric: its `rule` label, if any → value."""
        return {
            dict(sample.labels).get("rule"): sample.value
            for family in self.recorder.not_collected(self.rounds.run(COLLECTORS).families)
            for sample in family.samples
            if sample.name == name
        }

    @property
    def health(self):
        return self.values("node_health_metric").get(None)


@pytest.fixture
def node(tmp_path):
    made = Node(tmp_path)
    made.recorder.subscribe("evaluator", {"health_metric"})
    yield made
    made.rounds.close()


def test_health_rises_within_two_seconds_and_falls_after_quiet(node):
    node.after(5)
    assert node.health == 0
    node.hung(1)
    node.after(2)
    assert node.health == 1
    node.errors(1)
    node.after(2)
    assert node.health == 2
    node.after(86_400 - 60, step=300)
    assert node.health == 2
    node.after(1200, step=30)
    assert node.health == 0


def test_unloaded_driver_does_not_lower_health(node):
    node.errors(0)
    node.after(5)
    node.errors(1)
    node.after(2)
    for file in list(node.edac.iterdir()):
        file.unlink()
    node.edac.rmdir()
    node.after(86_400 + 7_200, step=300)
    assert node.health == 2
    assert node.values("node_health_inputs_lost") == {None: 1}
    assert node.values("node_health_rule_level") == {"memory_uncorrected": 2, "hung_task": 0}
    assert node.values("node_memory_uncorrected_errors_24h") == {}


def test_operator_value_overrides_the_recorded_one(node):
    node.after(5)
    node.errors(1)
    node.after(2)
    (node.text / "health.prom").write_text("node_health_metric 0\n")
    node.after(2)
    assert node.values("node_health_metric") == {}, "only the file's series exists"
    assert node.values("node_health_rule_level")["memory_uncorrected"] == 2
    (node.text / "health.prom").unlink()
    node.after(2)
    assert node.health == 2

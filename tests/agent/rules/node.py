"""A rule engine over fake collectors, on a fake clock."""

from dataclasses import dataclass

from agent.rules.engine import RuleEngine
from agent.scrape.runner import CollectorRunner
from collectors.interface.sample import Family, Sample

MEMORY = "node_memory_MemAvailable_bytes"  # of the collector meminfo only
LOAD = "node_load1"


def gauge(name: str, *rows: tuple[float, dict[str, str]]) -> Family:
    samples = tuple(Sample(name, tuple(labels.items()), value) for value, labels in rows)
    return Family(name, "gauge", "x", samples)


def one(name: str, value: float) -> Family:
    return gauge(name, (value, {}))


@dataclass
class Node:
    """A rule engine with its sources, rules and clock."""

    folder: object
    collector_runner: CollectorRunner
    recorder: RuleEngine
    text: object
    meminfo: object
    loadavg: object
    now: list[int]

    def rules(self, text: str, name: str = "r.yaml") -> None:
        (self.folder / name).write_text(text)

    def after(self, seconds: float) -> None:
        self.now[0] += round(seconds * 1000)
        self.recorder.step()

    def families(self) -> dict[str, Family]:
        return {family.name: family for family in self.recorder.not_collected(())}

    def values(self) -> dict[str, float]:
        return {
            sample.name + "".join(f" {k}={v}" for k, v in sample.labels): sample.value
            for family in self.recorder.not_collected(())
            for sample in family.samples
        }

    def accounts(self, name: str) -> dict[tuple[str, ...], float]:
        return {
            tuple(value for _, value in sample.labels): sample.value
            for family in self.recorder.accounts()
            if family.name == name
            for sample in family.samples
        }

    @property
    def errors(self) -> set[tuple[str, ...]]:
        return set(self.accounts("plimsoll_rule_error"))


def group(name: str, *rules: str, more: str = "") -> str:
    """A group of rules, each written `metric: expression`."""
    listed = "".join(
        "  - {{record: {}, expr: '{}'}}\n".format(*rule.split(": ", 1)) for rule in rules
    )
    return f"- name: {name}\n  {more}\n  rules:\n{listed}"

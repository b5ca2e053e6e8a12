"""A cause that an agent reports belongs to the reading of that agent, and to no other source's; failing rules by node: equal ones
once, bounded, and only those of nodes with fresh reports.
"""

import pytest

from evaluator.core.readings.merged import AGENTS, PROMETHEUS
from evaluator.core.readings.reported import FailingRuleIndex, NodeCauses
from evaluator.core.sources.options import CUSTOM_METRICS
from wire.failing_rules import NONE, FailingRule, FailingRules

RULE = FailingRule("", "g", "a", "evaluation", "text")
OTHER = RULE._replace(rule="b")


@pytest.mark.parametrize(
    ("source", "cause"),
    [("", "gpu: UUID=GPU-1"), (AGENTS, "gpu: UUID=GPU-1"), (PROMETHEUS, ""), (CUSTOM_METRICS, "")],
)
def test_only_readings_of_agents_have_a_cause(source: str, cause: str) -> None:
    causes = NodeCauses()
    causes.report("node-a", {"health": "gpu: UUID=GPU-1"})
    assert causes.cause_of("health", "node-a", source) == cause
    assert not causes.cause_of("health", "node-b", source)
    causes.report("node-a", {})
    assert not causes.cause_of("health", "node-a", source)


class Index(FailingRuleIndex):
    """An index whose nodes all reported at a time that tests set."""

    def __init__(self, most=10):
        self.reported = 0.0
        super().__init__(lambda _node: self.reported, stale_after=30.0, most=most)


@pytest.fixture
def index():
    return Index()


def by_rule(index):
    return dict(index.failures())


def test_equal_failures_of_nodes_are_one_with_the_time_of_each(index):
    index.report("node-a", FailingRules({RULE: 5.0}), 20.0)
    index.report("node-b", FailingRules({RULE: 0.0, OTHER: 1.0}), 20.0)
    assert by_rule(index) == {RULE: {"node-a": 15.0, "node-b": 20.0}, OTHER: {"node-b": 19.0}}


def test_report_replaces_the_nodes_failures(index):
    index.report("node-a", FailingRules({RULE: 0.0}, more=3), 0.0)
    index.report("node-a", FailingRules({OTHER: 0.0}), 5.0)
    assert index.failing_rules("node-a", 6.0) == FailingRules({OTHER: 1.0})
    index.report("node-a", NONE, 7.0)
    assert (by_rule(index), index.nodes()) == ({}, {})
    index.report("node-a", NONE, 8.0)


def test_stale_report_has_no_failing_rules(index):
    index.report("node-a", FailingRules({RULE: 0.0}), 0.0)
    assert index.failing_rules("node-a", 30.0).seconds == {RULE: 30.0}
    assert index.age("node-a", 30.0) == 30.0
    assert index.failing_rules("node-a", 30.1) == NONE
    assert index.age("node-a", 30.1) is None


def test_different_failures_are_bounded_and_the_others_counted():
    index = Index(most=3)
    for node in range(5):
        failing = {RULE._replace(text=f"{node} {number}"): 0.0 for number in range(2)}
        index.report(f"node-{node}", FailingRules(failing, more=1), 0.0)
    assert len(by_rule(index)) == 3
    assert index.nodes() == {"node-0": 1, "node-1": 2, "node-2": 3, "node-3": 3, "node-4": 3}
    index.report("node-0", NONE, 1.0)  # makes room
    index.report("node-4", FailingRules({RULE: 0.0, OTHER: 0.0}), 1.0)
    assert len(by_rule(index)) == 3

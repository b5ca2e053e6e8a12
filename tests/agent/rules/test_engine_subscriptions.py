"""Rules that the evaluator subscribes to: they run each second, with what they depend on."""

import math

import pytest

from collectors.interface.sample import Family
from tests.agent.rules.node import LOAD, MEMORY, group, one


def test_subscribed_group_and_its_dependencies_run_each_second(node) -> None:
    node.rules(
        "groups:\n"
        + group("base", f"node_base: {MEMORY}")
        + group("top", "node_top: node_base * 2")
        + group("other", f"node_other: {LOAD}")
    )
    node.after(0)
    node.recorder.subscribe("evaluator", ["top"])  # a policy may omit the prefix
    intervals = "plimsoll_rule_group_interval_seconds"
    for second in range(1, 4):
        node.meminfo.families = [one(MEMORY, second)]
        node.after(1)
        assert node.values()["node_top"] == 2 * second
    assert node.accounts(intervals) == {("base",): 1, ("top",): 1, ("other",): 5}
    assert node.loadavg.runs == 1
    node.recorder.subscribe("another", ["other"])
    node.after(1)
    assert set(node.accounts(intervals).values()) == {1}
    node.recorder.forget("evaluator")
    node.after(1)
    assert node.accounts(intervals) == {("base",): 5, ("top",): 5, ("other",): 1}


def test_changed_source_is_evaluated_at_once_and_at_most_each_second(node) -> None:
    """By the rules behind a subscription and those that they depend on."""
    node.rules(
        "groups:\n"
        + group("base", f"node_base: {MEMORY}")
        + group("top", "node_top: node_base * 2")
        + group("other", f"node_other: {LOAD}")
    )
    node.after(0)
    node.recorder.subscribe("evaluator", ["top"])
    node.after(0.4)
    node.meminfo.families = [one(MEMORY, 10)]
    node.recorder.hurry()
    node.after(0.1)
    assert node.values() == {"node_base": 10, "node_top": 20, "node_other": 1}
    node.meminfo.families = [one(MEMORY, 20)]
    node.recorder.hurry()
    node.after(0.1)
    assert node.values()["node_top"] == 20
    node.after(0.4)  # the second begins
    assert node.values()["node_top"] == 40
    assert node.loadavg.runs == 1
    assert node.accounts("plimsoll_rule_group_iterations_missed_total")[("top",)] == 0


def test_only_the_rules_behind_a_subscription_run_each_second(node) -> None:
    """The others keep the group's interval, and read no source in between."""
    node.rules("groups:\n" + group("g", f"a: {MEMORY}", "b: a * 2", f"c: {LOAD}", "d: a * 3"))
    node.after(0)
    node.recorder.subscribe("evaluator", ["b"])
    for second in range(1, 11):
        node.meminfo.families = [one(MEMORY, second)]
        node.after(1)
    assert node.values() == {"a": 10, "b": 20, "c": 1, "d": 30}
    assert (node.meminfo.runs, node.loadavg.runs) == (10, 3)
    node.meminfo.families = [one(MEMORY, 50)]
    node.after(1)
    assert node.values() == {"a": 50, "b": 100, "c": 1, "d": 30}
    node.recorder.forget("evaluator")
    node.meminfo.families = [one(MEMORY, 60)]
    node.after(1)
    assert node.loadavg.runs == 3
    node.after(3)
    assert node.values() == {"a": 60, "b": 120, "c": 1, "d": 180}
    assert node.loadavg.runs == 4


def test_rates_continue_when_a_subscription_begins_and_ends(node) -> None:
    node.rules("groups:\n" + group("g", f"grown: increase({MEMORY}[1m])", f"other: {LOAD}"))
    for second in range(0, 75, 5):
        node.meminfo.families = [one(MEMORY, 3 * second)]
        node.after(5)
    assert node.values()["grown"] == pytest.approx(180)
    node.recorder.subscribe("evaluator", ["grown"])
    for second in range(71, 90):
        node.meminfo.families = [one(MEMORY, 3 * second)]
        node.after(1)
        assert node.values()["grown"] == pytest.approx(180, abs=10)
    node.recorder.subscribe("evaluator", ["other"])
    node.after(1)
    assert node.values()["grown"] == pytest.approx(180, abs=10)


@pytest.mark.parametrize("expression", [f"increase({MEMORY}[1h])", "max_over_time(base[10m])"])
def test_what_a_subscribed_rule_saw_is_kept_when_the_subscription_ends(node, expression) -> None:
    """Long ranges and ranges over recorded series: a peak between two of the group's own ticks counts."""
    node.rules("groups:\n" + group("g", f"base: {MEMORY}", f"seen: {expression}"))
    node.after(0)
    node.recorder.subscribe("evaluator", ["seen"])
    for value in (1, 1, 100, 1):
        node.meminfo.families = [one(MEMORY, value)]
        node.after(1)
    node.recorder.forget("evaluator")
    node.after(1)
    node.after(5)
    assert node.values()["seen"] >= 99


def test_change_over_a_twentieth_is_sent_at_once(node) -> None:
    node.rules("groups:\n" + group("g", f"a: {MEMORY}", f"b: {LOAD}"))
    recorder = node.recorder
    changes: list[int] = []
    recorder.subscribe("evaluator", ["a"], lambda: changes.append(1))
    node.meminfo.families = [one(MEMORY, 100)]
    node.after(1)
    recorder.sent("evaluator")

    def moved(family: Family | None) -> bool:
        changes.clear()
        node.meminfo.families = [family] if family else []
        node.after(1)
        return bool(changes)

    assert not moved(one(MEMORY, 104))
    node.loadavg.families = [one(LOAD, 9)]
    assert not moved(one(MEMORY, 96))
    assert moved(one(MEMORY, 106))
    recorder.sent("evaluator")
    assert not moved(one(MEMORY, 105))
    assert moved(None)
    recorder.sent("evaluator")
    assert not moved(None)
    assert moved(one(MEMORY, 0))
    recorder.sent("evaluator")
    assert moved(one(MEMORY, 0.001))
    recorder.sent("evaluator")
    assert moved(one(MEMORY, math.nan))
    recorder.sent("evaluator")
    assert not moved(one(MEMORY, math.nan))

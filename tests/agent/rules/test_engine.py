"""Rules over fake collectors, on a fake clock."""

import asyncio
import contextlib
import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import structlog

from agent.rules.clock import Clock
from agent.rules.engine import RuleEngine
from agent.rules.options import RuleOptions
from agent.rules.state_saver import StateSaver
from agent.scrape.runner import CollectorRunner
from collectors.interface.sample import CollectorError, Family, Sample

MEMORY = "node_memory_MemAvailable_bytes"  # of the collector meminfo only
LOAD = "node_load1"


def gauge(name: str, *rows: tuple[float, dict[str, str]]) -> Family:
    samples = tuple(Sample(name, tuple(labels.items()), value) for value, labels in rows)
    return Family(name, "gauge", "x", samples)


def one(name: str, value: float) -> Family:
    return gauge(name, (value, {}))


@pytest.fixture
def logged() -> Iterator[list[dict[str, object]]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


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


@pytest.fixture
def node_with(tmp_path, source):
    """A node with options of the engine."""
    made = []

    def make(*, saver: StateSaver | None = None, **options) -> Node:
        text, meminfo, loadavg = source(), source([one(MEMORY, 1)]), source([one(LOAD, 1)])
        collector_runner = CollectorRunner(
            {"textfile": text, "meminfo": meminfo, "loadavg": loadavg}, timeout=1.0
        )
        made.append(collector_runner)
        now = [1_000_000]
        clock = Clock(boot=lambda: now[0], wall=lambda: now[0] + 5_000_000)
        chosen = RuleOptions(files=(str(tmp_path / "*.yaml"),), **options)
        recorder = RuleEngine(collector_runner, chosen, saver=saver, clock=clock)
        return Node(tmp_path, collector_runner, recorder, text, meminfo, loadavg, now)

    yield make
    for collector_runner in made:
        collector_runner.close()


@pytest.fixture
def node(node_with) -> Node:
    return node_with()


def group(name: str, *rules: str, more: str = "") -> str:
    """A group of rules, each written `metric: expression`."""
    listed = "".join(
        "  - {{record: {}, expr: '{}'}}\n".format(*rule.split(": ", 1)) for rule in rules
    )
    return f"- name: {name}\n  {more}\n  rules:\n{listed}"


def test_rule_records_the_result_of_its_expression(node) -> None:
    node.rules("groups:\n" + group("g", f"half: {MEMORY} * 0.5", "one: 1"))
    node.meminfo.families = [gauge(MEMORY, (10, {"zone": "a"}), (20, {"zone": "b"}))]
    node.after(0)
    assert node.values() == {"half zone=a": 5, "half zone=b": 10, "one": 1}
    half = node.families()["half"]
    assert half.type == "gauge"
    assert half.help == f"Recorded by a rule: {MEMORY} * 0.5"


def test_rule_labels_are_set_and_an_empty_one_removes(node) -> None:
    node.meminfo.families = [gauge(MEMORY, (10, {"zone": "a", "z": "b"}))]
    node.rules(
        f"groups: [{{name: g, rules: [{{record: x, expr: {MEMORY}, labels: {{zone: '', a: b}}}}]}}]"
    )
    node.after(0)
    assert node.values() == {"x a=b z=b": 10}


def test_rates_are_over_the_nodes_own_samples(node) -> None:
    node.rules("groups:\n" + group("g", f"grown: increase({MEMORY}[1m])"))
    for second in range(0, 125, 5):
        node.meminfo.families = [one(MEMORY, 100 + 3 * second)]
        node.after(5)
    assert node.values()["grown"] == pytest.approx(180)


def test_group_interval_overrides_the_common_one(node) -> None:
    node.rules(
        "groups:\n"
        + group("slow", f"a: {MEMORY}", more="interval: 10s")
        + group("common", f"b: {LOAD}")
    )
    node.after(0)
    assert (node.meminfo.runs, node.loadavg.runs) == (1, 1)
    for _ in range(20):
        node.after(1)
    assert (node.meminfo.runs, node.loadavg.runs) == (3, 5)
    assert node.accounts("plimsoll_rule_group_interval_seconds") == {("slow",): 10, ("common",): 5}


def test_subquery_without_a_step_uses_the_common_interval(node) -> None:
    """As in Prometheus, where the default step is the evaluation_interval, not the group's interval."""
    node.rules("groups:\n" + group("g", f"a: count_over_time({MEMORY}[1m:])", more="interval: 10s"))
    for _ in range(13):
        node.after(10)
    assert node.values() == {"a": pytest.approx(12, abs=1)}


def test_only_needed_collectors_run(node) -> None:
    node.rules("groups:\n" + group("g", f"a: {MEMORY}"))
    node.after(0)
    assert (node.meminfo.runs, node.loadavg.runs) == (1, 0)


def test_later_rules_and_other_groups_see_recorded_series(node) -> None:
    """Groups are evaluated after those they depend on, in any file order."""
    node.rules(
        "groups:\n" + group("second", "d: c * 2") + group("first", f"b: {MEMORY} * 3", "c: b * 5")
    )
    node.after(0)
    assert node.values() == {"b": 3, "c": 15, "d": 30}


def test_ended_result_is_gone_at_the_next_tick(node) -> None:
    node.rules("groups:\n" + group("g", f"a: {MEMORY}"))
    node.after(0)
    assert node.values() == {"a": 1}
    node.meminfo.families = []
    node.after(5)
    assert node.values() == {}
    assert node.recorder.unread() == frozenset()


def test_results_of_a_failed_collector_are_unread_and_not_absent(node) -> None:
    node.rules(
        "groups:\n" + group("g", f"a: {MEMORY}", f"b: {LOAD}", "c: a * 2") + group("h", "d: c * 2")
    )
    node.after(0)
    node.after(5)
    node.meminfo.error = CollectorError("EIO")
    node.meminfo.families = []
    node.after(5)
    assert node.values() == {"b": 1}
    assert node.recorder.unread() == {"a", "c", "d"}
    node.meminfo.error = None
    node.meminfo.families = [one(MEMORY, 7)]
    node.after(5)
    assert node.values() == {"a": 7, "b": 1, "c": 14, "d": 28}
    assert node.recorder.unread() == frozenset()


def test_nothing_is_absent_before_the_second_tick(node) -> None:
    """A rate needs two samples; its absence at first says nothing about the node."""
    node.rules("groups:\n" + group("g", f"a: rate({MEMORY}[1m])", "b: nowhere"))
    node.recorder.look()
    assert node.recorder.unread() == {"a", "b"}
    node.after(0)
    assert node.values() == {}
    assert node.recorder.unread() == {"a", "b"}
    node.after(5)
    assert node.values() == {"a": 0}
    assert node.recorder.unread() == frozenset()


def test_results_older_than_three_intervals_are_not_served(node) -> None:
    node.rules("groups:\n" + group("g", f"a: {MEMORY}"))
    node.after(0)
    node.now[0] += 15_000
    assert node.values() == {"a": 1}
    node.now[0] += 1
    assert node.values() == {}
    assert node.recorder.unread() == {"a"}


def test_hanging_collector_stops_no_rule_of_other_sources(node) -> None:
    released = threading.Event()
    node.meminfo.before = released.wait
    node.rules("groups:\n" + group("g", f"a: {MEMORY}", f"b: {LOAD}"))
    try:
        node.after(0)
        node.loadavg.families = [one(LOAD, 2)]
        node.after(5)
        assert node.values() == {"b": 2}
        assert node.recorder.unread() == {"a"}
    finally:
        released.set()


def test_collected_metric_overrides_a_recorded_one_and_this_is_logged_once(node, logged) -> None:
    """An operator's .prom file overrides a rule: on /metrics, for other rules, in the stream."""
    node.rules("groups:\n" + group("g", f"health: {MEMORY}", "twice: health * 2"))
    node.after(0)
    assert node.values() == {"health": 1, "twice": 2}
    node.text.families = [gauge("health", (5, {"by": "hand"}))]
    node.after(5)
    assert node.values() == {"twice by=hand": 10}
    own = node.text.families
    for _ in range(2):
        assert [f.name for f in node.recorder.not_collected(own)] == ["twice"]
    said = "a collector exports the metric of a rule; keeping the collector's"
    assert [line["metric"] for line in logged if line["event"] == said] == ["health"]
    node.text.families = []
    node.after(5)
    assert node.values() == {"health": 1, "twice": 2}


def test_group_with_another_interval_sees_the_collected_metric_too(node) -> None:
    node.rules(
        "groups:\n"
        + group("slow", f"health: {MEMORY}", more="interval: 1m")
        + group("quick", "twice: health * 2")
    )
    node.after(0)
    assert node.values() == {"health": 1, "twice": 2}
    node.text.families = [gauge("health", (5, {"by": "hand"}))]
    node.after(5)
    assert node.values() == {"health": 1, "twice by=hand": 10}


def test_last_result_of_a_failed_rule_counts_for_the_look_back(
    node,
) -> None:
    """As in Prometheus; it is not published meanwhile."""
    node.rules("groups:\n" + group("g", f"a: {MEMORY} - on() {LOAD}", "b: a + 1"))
    node.after(0)
    assert node.values() == {"a": 0, "b": 1}
    node.loadavg.families = [gauge(LOAD, (1, {"a": "1"}), (2, {"a": "2"}))]
    for _ in range(60):
        node.after(5)
        assert node.values() == {"b": 1}
        assert node.recorder.unread() == {"a"}
    node.after(5)
    assert node.values() == {}


def test_failed_rule_is_named_and_others_run(node, logged) -> None:
    node.rules(
        "groups:\n"
        + group("g", "bad: rate(", f"a: {MEMORY}", f"many: {MEMORY} - on() {LOAD}", more="limit: 2")
    )
    node.loadavg.families = [gauge(LOAD, (1, {"a": "1"}), (2, {"a": "2"}))]
    node.after(0)
    assert node.values() == {"a": 1}
    assert node.errors == {("g", "bad", "parse"), ("g", "many", "evaluation")}
    assert node.recorder.unread() == {"many"}
    node.after(5)
    node.loadavg.families = [one(LOAD, 1)]
    node.after(5)
    assert node.values() == {"a": 1, "many": 0}
    assert node.errors == {("g", "bad", "parse")}
    events = [line["event"] for line in logged if line.get("rule")]
    assert events == ["rule skipped", "rule fails", "rule works again"]


def test_failures_have_the_time_since_they_began_until_they_end(node) -> None:
    node.rules("groups:\n" + group("g", f"x: {MEMORY} / on () {LOAD}"))
    node.rules("groups: 5", "broken.yaml")
    node.loadavg.families = [gauge(LOAD, (1, {"a": "1"}), (2, {"a": "2"}))]
    node.after(0)
    node.after(60)
    found = node.recorder.failing()
    assert {rule.identity: seconds for rule, seconds in found.items()} == {
        ("", "g", "x", "evaluation"): 60.0,
        ("broken.yaml", "", "", "syntax"): 60.0,
    }
    node.loadavg.families = [one(LOAD, 1)]
    (node.folder / "broken.yaml").unlink()
    node.after(60)
    node.after(60)
    assert node.recorder.failing() == {}


def test_rule_over_the_limit_yields_nothing(node) -> None:
    node.rules("groups:\n" + group("g", f"a: {MEMORY}", "b: 1", more="limit: 1"))
    node.after(0)
    node.meminfo.families = [gauge(MEMORY, (1, {"z": "1"}), (2, {"z": "2"}))]
    node.after(5)
    assert node.values() == {"b": 1}
    assert node.errors == {("g", "a", "limit")}


def test_series_recorded_twice_is_that_of_the_first_rule(node) -> None:
    node.rules("groups:\n" + group("g", "a: 1", "a: 2") + group("h", "a: 3"))
    node.after(0)
    assert node.values() == {"a": 1}
    assert node.errors == {("g", "a", "duplicate"), ("h", "a", "duplicate")}


def test_labels_that_merge_series_are_an_error(node) -> None:
    node.meminfo.families = [gauge(MEMORY, (1, {"z": "1"}), (2, {"z": "2"}))]
    node.rules(f"groups: [{{name: g, rules: [{{record: x, expr: {MEMORY}, labels: {{z: ''}}}}]}}]")
    node.after(0)
    assert node.values() == {}
    assert node.errors == {("g", "x", "evaluation")}


def test_group_over_the_memory_limit_stops_and_reports_so(node_with) -> None:
    node = node_with(max_memory=20_000)
    node.rules("groups:\n" + group("big", f"a: {MEMORY}") + group("small", f"b: {LOAD}"))
    node.after(0)
    assert node.values() == {"a": 1, "b": 1}
    node.meminfo.families = [gauge(MEMORY, *((i, {"i": str(i)}) for i in range(100)))]
    for _ in range(3):
        node.after(5)
        assert node.values() == {"b": 1}
        assert node.errors == {("big", "a", "memory")}
        assert node.recorder.unread() == {"a"}
    assert node.accounts("plimsoll_rule_group_memory_bytes")["big",] == 0


def test_memory_limit_is_shared_by_all_groups(node_with) -> None:
    node = node_with(max_memory=20_000)
    rows = [(float(i), {"i": str(i)}) for i in range(12)]
    node.meminfo.families, node.loadavg.families = [gauge(MEMORY, *rows)], [gauge(LOAD, *rows)]
    node.rules("groups:\n" + group("one", f"a: sum({MEMORY})"))
    node.after(0)
    assert node.errors == set()
    node.rules("groups:\n" + group("one", f"a: sum({MEMORY})") + group("two", f"b: sum({LOAD})"))
    node.after(5)
    node.after(5)
    assert node.errors == {("two", "b", "memory")}
    assert node.values() == {"a": 66}


@pytest.mark.parametrize("more", ["", "limit: 5"])
def test_groups_keep_their_samples_when_rules_change(node, more) -> None:
    """Unchanged groups and changed ones."""
    long = f"grown: increase({MEMORY}[1h])"
    node.rules("groups:\n" + group("long", long) + group("g", "a: 1"))
    for value in (1, 2, 3):
        node.meminfo.families = [one(MEMORY, value)]
        node.after(5)
    node.meminfo.families = []
    node.rules("groups:\n" + group("g", "a: 2") + group("long", long, more=more))
    node.after(2)
    assert node.values()["a"] == 1
    node.after(2)
    assert node.values()["a"] == 2
    assert node.values()["grown"] >= 2


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


def test_missed_evaluations_are_counted(node) -> None:
    node.rules("groups:\n" + group("g", f"a: {MEMORY}"))
    node.after(0)
    node.after(5)
    node.after(20)
    assert node.accounts("plimsoll_rule_group_iterations_missed_total") == {("g",): 3}


def test_no_rules_cost_nothing(node) -> None:
    node.after(0)
    node.after(5)
    assert (node.meminfo.runs, node.loadavg.runs, node.text.runs) == (0, 0, 0)
    assert node.values() == {}


def test_metrics_about_collectors_can_be_queried(node) -> None:
    node.rules(
        "groups:\n" + group("g", 'failed: node_scrape_collector_success{collector="meminfo"}')
    )
    node.after(0)
    assert node.values() == {"failed collector=meminfo": 1}
    assert node.loadavg.runs == 0


@pytest.fixture
def saver(tmp_path) -> StateSaver:
    """Saves the state in a file while the machine keeps running."""
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("01234567-89ab-cdef-0123-456789abcdef\n")
    return StateSaver(tmp_path / "state", tmp_path / "proc", limit=1 << 20)


async def run_and_stop(node: Node, until) -> None:
    """Run the agent's own loop until it is stopped."""
    node.now[0] += 5_000
    running = asyncio.create_task(node.recorder.run())
    await until(lambda: node.accounts("plimsoll_rule_file_error") or node.loadavg.runs)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


GROWN = "groups:\n" + group("g", f"grown: increase({MEMORY}[1h])", f"load: {LOAD}")


async def test_saved_samples_count_after_a_restart(node_with, saver, until) -> None:
    first = node_with(saver=saver)
    first.rules(GROWN)
    await run_and_stop(first, until)
    second = node_with(saver=saver)
    second.now[0] = first.now[0] + 60_000
    second.meminfo.families = [one(MEMORY, 50)]
    second.after(5)
    assert second.values()["grown"] >= 49


async def test_invalid_rule_file_at_restart_keeps_saved_samples(node_with, saver, until) -> None:
    first = node_with(saver=saver)
    first.rules(GROWN)
    await run_and_stop(first, until)
    second = node_with(saver=saver)
    second.now[0] = first.now[0]
    second.rules("groups: [")
    await run_and_stop(second, until)
    third = node_with(saver=saver)
    third.now[0] = second.now[0] + 60_000
    third.rules(GROWN)
    third.meminfo.families = [one(MEMORY, 50)]
    third.after(5)
    assert third.values()["grown"] >= 49


async def test_unwritable_state_file_stops_nothing_and_is_logged(
    node_with, saver, until, tmp_path, logged
) -> None:
    (tmp_path / "state").mkdir()
    node = node_with(saver=saver)
    node.rules(GROWN)
    await run_and_stop(node, until)
    assert node.values()["load"] == 1
    said = [line["event"] for line in logged if line["log_level"] in {"warning", "error"}]
    assert said == ["saved samples for rules are dropped", "samples for rules are not saved"]

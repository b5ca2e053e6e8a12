"""Rules over fake collectors, on a fake clock."""

import threading
from collections.abc import Iterator

import pytest
import structlog

from collectors.interface.sample import CollectorError, Family, Sample
from tests.agent.rules.node import LOAD, MEMORY, gauge, group, one


@pytest.fixture
def logged() -> Iterator[list[dict[str, object]]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


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


@pytest.mark.parametrize(("ranges", "count"), [("open", 12), ("closed", 13)])
def test_range_holds_the_sample_at_its_beginning_only_if_ranges_are_closed(
    node_with, ranges, count
) -> None:
    node = node_with(ranges=ranges)
    node.rules("groups:\n" + group("g", f"a: count_over_time({MEMORY}[1m])"))
    for _ in range(20):
        node.after(5)
    assert node.values() == {"a": count}


@pytest.mark.parametrize(("ranges", "rules"), [("open", ["a", "d"]), ("closed", [])])
def test_rules_with_short_ranges_are_logged_at_the_start(node_with, logged, ranges, rules) -> None:
    node = node_with(ranges=ranges)
    node.rules(
        "groups:\n"
        + group("g", f"a: rate({MEMORY}[5s])", f"b: rate({MEMORY}[10s])")
        + group("slow", f"c: rate({MEMORY}[1m])", f"d: rate({MEMORY}[30s])", more="interval: 30s")
    )
    node.after(0)
    warned = [line for line in logged if line["event"] == "range is short"]
    assert [line["rule"] for line in warned] == rules
    assert all(line["log_level"] == "warning" for line in warned)


def test_bounds_of_histograms_are_spelled_as_prometheus_stores_them(node) -> None:
    buckets = [
        Sample("h_bucket", (("le", bound),), 1.0) for bound in ("0.5", "1", "1000000", "+Inf")
    ]
    quantiles = [Sample("s", (("quantile", "0"),), 2.0), Sample("s", (("quantile", "0.50"),), 3.0)]
    node.text.families = [
        Family("h", "histogram", "x", tuple(buckets)),
        Family("s", "summary", "x", tuple(quantiles)),
        gauge("g", (4.0, {"le": "1", "quantile": "1"})),
    ]
    node.rules(
        "groups:\n"
        + group(
            "g",
            'one: h_bucket{le="1.0"}',
            'old: h_bucket{le="1"}',
            "s_: s",
            "g_: g",
            "many: h_bucket",
        )
    )
    node.after(0)
    assert {key.partition(" ")[2] for key in node.values() if key.startswith("many")} == {
        *("le=0.5", "le=1.0", "le=1e+06", "le=+Inf")
    }
    others = {key: value for key, value in node.values().items() if not key.startswith("many")}
    assert others == {
        "one le=1.0": 1,
        "s_ quantile=0.0": 2,
        "s_ quantile=0.5": 3,
        "g_ le=1 quantile=1": 4,
    }


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
    for _ in range(59):
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

"""`plimsoll backtest` on OpenMetrics files: the report, the gate, and errors that say what to do."""

import json
import math

import pytest

from lab.backtest import gate
from tests.lab.conftest import BEGIN, rule

A, B = 'node_load1{instance="a:9100"}', 'node_load1{instance="b:9100"}'


def test_intervals_have_start_end_worst_value_and_rule(backtest):
    assert backtest({A: [1, 7, 9, 8, 1, 1], B: [1, 1, 1, 1, 1, 7]}, "-o", "json") == 0
    nodes = backtest.json()["nodes"]
    assert nodes["a"]["intervals"] == [
        {
            "start": "2025-11-15T00:01:00.000Z",
            "end": "2025-11-15T00:04:00.000Z",
            "strategy": "dontschedule",
            "rule": "load1 GreaterThan 6",
            "worst": 9.0,
        }
    ]
    assert nodes["a"]["seconds"] == 180


@pytest.mark.parametrize(
    ("infinity", "text", "operator"),
    [(math.inf, "+Inf", "GreaterThan"), (-math.inf, "-Inf", "LessThan")],
)
def test_infinity_is_a_reading_in_every_output(backtest, infinity, text, operator):
    rules = [rule(operator=operator)]
    series = {A: [6, infinity, 6], B: [6, 6, 6]}
    assert backtest(series, "-o", "json", dontschedule=rules) == 0
    (one,) = backtest.json()["nodes"]["a"]["intervals"]
    assert one["worst"] == text
    assert backtest(series, dontschedule=rules) == 0
    assert f"worst {text}" in backtest.out
    assert "no reading" not in backtest.out
    assert backtest(series, "-o", "csv", dontschedule=rules) == 0
    assert f",{text}," in backtest.out
    assert backtest(series, "-o", "html", dontschedule=rules) == 0
    assert f"worst {text}" in backtest.out


def test_condition_that_is_none_is_shown_as_it_was_written(backtest):
    assert backtest({A: [1]}, "--fail-if=violated>20%") == 2
    assert "not a condition: 'violated>20%' (one of violating>N, violating>N%, " in backtest.err


def test_an_interval_that_has_not_ended_is_ongoing(backtest):
    assert backtest({A: [1, 1, 7, 7], B: [1, 1, 1, 1]}, "-o", "json") == 0
    (one,) = backtest.json()["nodes"]["a"]["intervals"]
    assert one["ongoing"]
    assert one["end"] == "2025-11-15T00:03:00.000Z"


def test_for_and_clear_after_delay_as_they_do_live(backtest):
    timed = rule(**{"for": "2m", "clearAfter": "90s"})
    series = {A: [1, 7, 7, 7, 1, 1, 1, 1], B: [1] * 8}
    assert backtest(series, "-o", "json", dontschedule=[timed]) == 0
    (one,) = backtest.json()["nodes"]["a"]["intervals"]
    assert one["start"] == "2025-11-15T00:03:00.000Z"
    assert one["end"] == "2025-11-15T00:05:30.000Z"


def test_data_before_the_range_count_for_it(backtest):
    timed = rule(**{"for": "3m"})
    series = {A: [1, 7, 7, 7, 7, 7, 7, 7], B: [1] * 8}
    assert backtest(series, "-o", "json", "--from=2m", dontschedule=[timed]) == 0
    (one,) = backtest.json()["nodes"]["a"]["intervals"]
    assert one["beganBefore"]
    assert one["start"] == "2025-11-15T00:05:00.000Z"


def test_figures_count_nodes_at_once_changes_and_minutes_without_a_node(backtest):
    series = {A: [1, 7, 1, 7, 7, 1], B: [1, 1, 1, 7, 7, 7]}
    assert backtest(series, "-o", "json") == 0
    found = backtest.json()
    assert found["nodesAtOnce"]["max"] == 2
    assert found["nodesAtOnce"]["maxShare"] == 1
    assert found["nodeHours"] == pytest.approx(5 / 60, abs=1e-5)
    assert found["noNodeMinutes"] == 2
    assert found["flaps"]["changes"] == 5
    assert found["flaps"]["worstNodes"][0] == {"node": "a", "changes": 4, "worstHour": 4}


@pytest.mark.parametrize("metric", ["load1", "node_load1"])
@pytest.mark.parametrize("series", ["load1", "node_load1"])
def test_prefix_node_is_optional_on_either_side(backtest, metric, series):
    given = {f'{series}{{node="a"}}': [1, 9, 9], f'{series}{{node="b"}}': [1, 1, 1]}
    assert backtest(given, "-o", "json", dontschedule=[rule(metric=metric)]) == 0
    found = backtest.json()
    assert (list(found["nodes"]), found["metricsWithoutData"]) == (["a"], [])


def test_series_with_the_name_of_the_metric_precedes_the_others(backtest):
    given = {
        'node_load1{node="a"}': [1] * 3,
        'load1{node="a"}': [9] * 3,
        'load1{node="b"}': [9] * 3,
    }
    assert backtest(given, "-o", "json", dontschedule=[rule(metric="node_load1")]) == 0
    assert list(backtest.json()["nodes"]) == ["b"]


def test_capacity_comes_from_kube_state_metrics(backtest):
    cpu = 'kube_node_status_allocatable{node="a",resource="cpu"}'
    memory = 'kube_node_status_allocatable{node="a",resource="memory"}'
    series = {'load1{node="a"}': [7] * 61, cpu: [8], memory: [4 << 30]}
    assert backtest(series, "-o", "json") == 0
    assert backtest.json()["refused"] == {"nodeHours": 1.0, "coreHours": 8.0, "gibHours": 4.0}


def test_addresses_become_node_names_by_kube_node_info(backtest):
    info = 'kube_node_info{node="worker-1",internal_ip="10.0.0.7",instance="ksm:8080"}'
    series = {info: [1] * 3, 'node_load1{instance="10.0.0.7:9100"}': [7, 7, 7]}
    assert backtest(series, "-o", "json") == 0
    assert list(backtest.json()["nodes"]) == ["worker-1"]


def test_a_gap_of_the_source_is_told_apart_from_missing_nodes(backtest):
    quiet = [1, 1, None, None, None, None, None, None, None, 1, 1]
    assert backtest({A: quiet, B: quiet}, "-o", "json", "--staleAfter=2m") == 0
    whole = json.loads(backtest.out)
    (gap,) = whole["gaps"]
    assert gap["start"].startswith("2025-11-15T00:03:0")
    assert gap["end"] == "2025-11-15T00:09:00Z"
    assert whole["policies"][0]["missingShare"] == 0
    assert backtest({A: quiet, B: [1] * 11}, "-o", "json", "--staleAfter=2m") == 0
    assert not json.loads(backtest.out)["gaps"]
    assert backtest.json()["missingShare"] == pytest.approx(0.3, abs=0.01)


def test_a_missing_reading_violates_where_the_rule_says_so(backtest):
    quiet = [1, 1, None, None, None, None, 1]
    strict = rule(whenMissing="violate")
    series = {A: quiet, B: [1] * 7}
    assert backtest(series, "-o", "json", "--staleAfter=2m", dontschedule=[strict]) == 0
    (one,) = backtest.json()["nodes"]["a"]["intervals"]
    assert one["byMissing"]
    assert one["worst"] is None


def test_several_series_of_a_node_have_no_single_value(backtest):
    one = 'load1{node="a",disk="sda"}'
    other = 'load1{node="a",disk="sdb"}'
    assert backtest({one: [7] * 3, other: [8] * 3}, "-o", "json") == 0
    assert backtest.json()["nodes"] == {}
    assert backtest.json()["missingShare"] == 1
    assert "too little data" in backtest.err


def test_the_worst_hour_may_begin_at_any_moment(backtest):
    """Six changes between 00:50 and 01:11, and one at 02:10."""
    busy = {50, 51, 60, 61, 70, *range(130, 141)}
    series = {A: [7 if minute in busy else 1 for minute in range(141)], B: [1] * 141}
    assert backtest(series, "-o", "json", "--fail-if=flaps>5/h") == 1
    flaps = backtest.json()["flaps"]
    assert flaps["changes"] == 7
    assert flaps["worstNodes"][0]["worstHour"] == flaps["worstNodeHour"] == 6


def test_the_text_has_at_most_80_lines_and_says_what_it_is_not(backtest):
    series = {f'load1{{node="n{n}"}}': [1, 7] * 30 for n in range(50)}
    assert backtest(series) == 0
    lines = backtest.out.splitlines()
    assert len(lines) <= 80
    assert "does not simulate that placement changes load" in lines[-1]
    assert "policy ns/load" in backtest.out
    assert "50 of 50 (100%)" in backtest.out


@pytest.mark.parametrize(
    ("conditions", "status"),
    [
        (["violating>20%"], 1),
        (["violating>60%", "no-node>0"], 0),
        (["flaps>1/h"], 1),
        (["flaps>2/h"], 0),
        (["violating>=1", "violating>50%"], 1),
    ],
)
def test_the_gate_fails_a_policy_over_a_limit(backtest, conditions, status):
    flags = [f"--fail-if={condition}" for condition in conditions]
    assert backtest({A: [1, 7, 7, 1], B: [1, 1, 1, 1]}, *flags) == status
    assert ("over the limit: ns/load" in backtest.err) == bool(status)


def test_the_gate_is_not_green_over_data_with_warnings(backtest):
    assert backtest({A: [1, 7, 1], B: [1, 1, 1]}, "-o", "json") == 0
    report = json.loads(backtest.out)
    few, many = gate.condition("violating>1"), gate.condition("violating>0")
    assert gate.verdict(report, [few]) == (0, [])
    warned = report | {"warnings": ["store b is down"]}
    assert gate.verdict(warned, [few]) == (2, ["warning of the source: store b is down"])
    assert gate.verdict(warned, [many])[0] == 1


def test_the_gate_is_never_green_over_no_data(backtest):
    series = {A: [1, None, None, None, None, None, None, None, None, 1], B: [1] * 10}
    rules = [rule(), rule(metric="load15")]
    assert backtest(series, "--fail-if=violating>20%", dontschedule=rules) == 2
    assert "too little data: ns/load: no node has load15" in backtest.err
    strict = [rule(metric="load15", whenMissing="violate")]
    assert backtest(series, "--fail-if=violating>20%", dontschedule=[rule(), *strict]) == 2
    later = ("--from=2025-11-15T02:00:00Z", "--to=2025-11-15T03:00:00Z")
    missing = rule(whenMissing="violate")
    assert backtest(series, "--fail-if=violating>20%", *later, dontschedule=[missing]) == 2
    assert backtest({"up": [1, 1]}, "--fail-if=violating>20%") == 2
    assert "no line is a sample of load1 on a node" in backtest.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--fail-if=violating>20"], None),
        (["--fail-if=oops>20"], "not a condition: 'oops>20' (one of violating>N, violating>N%"),
        (["--from=yesterday"], "not a time: 'yesterday' (write it like"),
        (["--from=now"], "the range is empty"),
        (["--step=0s"], "must be more than 0"),
        (["--step=10m"], "--staleAfter must be at least --step"),
        (["--openmetrics", "/nonexistent"], "/nonexistent: cannot be read: No such file"),
        (["-f", "/nonexistent"], "/nonexistent: cannot be read: No such file"),
    ],
)
def test_invalid_arguments_get_one_sentence(backtest, flags, message):
    status = backtest({A: [1] * 3}, *flags)
    if message is None:
        assert status == 0
        return
    assert status == 2
    assert message in backtest.err
    assert "Traceback" not in backtest.err


def test_a_line_without_timestamp_names_the_line_and_the_tool(backtest):
    assert backtest({'load1{node="a b"} 3\nload1{node="b"}': [1]}) == 2
    assert (
        "line 1 is not a sample with a timestamp: write the file with promtool tsdb dump-openmetrics"
        in backtest.err
    )


def test_metrics_that_are_not_recorded_are_refused(backtest):
    strategies = {"dontschedule": [rule(metric="node_condition_Ready")]}
    assert backtest({A: [1]}, **strategies) == 2
    assert "node conditions and derived metrics are not recorded" in backtest.err


def test_an_observed_policy_is_replayed_as_if_enforced(backtest):
    backtest.annotations = {"plimsoll.io/enforcement": "observe"}
    assert backtest({A: [1, 7, 1]}) == 0
    assert "only observed: as if it were enforced" in backtest.out


def test_the_next_source_is_used_where_the_first_has_no_fresh_reading(backtest, tmp_path):
    other = [
        f'load1{{node="{n}"}} {8 if n == "c" else 3} {BEGIN + 60 * t + 1}\n'
        for n in "abc"
        for t in range(8)
    ]
    (tmp_path / "other.om").write_text("".join(other))
    series = {A: [7, 7, None, None, None, None, None, None], B: [7] * 8}
    flags = ("--staleAfter=2m", "-o", "json", "--openmetrics", str(tmp_path / "other.om"))
    assert backtest(series, *flags) == 0
    nodes = backtest.json()["nodes"]
    assert [*nodes] == ["a", "b", "c"]
    (one,) = nodes["a"]["intervals"]
    assert one["end"].startswith("2025-11-15T00:03:00"), "then the other source says 3"
    assert nodes["c"]["intervals"][0]["worst"] == 8
    assert backtest.json()["missingShare"] == pytest.approx(0, abs=0.05)


def test_known_faults_give_precision_recall_and_time_to_detection(backtest, tmp_path):
    known = tmp_path / "faults.csv"
    known.write_text(f"node,start,end\na,{BEGIN},{BEGIN + 240}\nb,{BEGIN + 60},\ngone,0,\n")
    series = {A: [1, 7, 9, 8, 1, 1, 1, 7, 1], B: [1] * 9}
    assert backtest(series, f"--faults={known}", "-o", "json") == 0
    assert backtest.json()["detection"] == {
        "faults": 2,
        "found": 1,
        "violations": 2,
        "right": 1,
        "precision": 0.5,
        "recall": 0.5,
        "f1": 0.5,
        "falsePer1000NodeDays": 90000.0,
        "secondsToDetection": {"p50": 60.0, "p95": 60.0},
    }
    assert backtest(series, f"--faults={known}") == 0
    assert "faults: 1 of 2 found (recall 0.500), after 1m (p50)" in backtest.out
    known.write_text("a,1,2\n")
    assert backtest(series, f"--faults={known}") == 2
    assert "faults.csv: line 1: expected the header node,start,end" in backtest.err
    assert backtest(series, "--faults=/nowhere") == 2
    assert "--faults /nowhere: cannot be read" in backtest.err


def test_rules_on_peers_compare_recorded_nodes_and_report_the_worst_deviation(backtest):
    slow = rule(6, "load1:peer_deviation")
    series = {f'node_load1{{instance="n{n}:9100"}}': [10 + n % 2 / 10] * 6 for n in range(9)}
    series['node_load1{instance="bad:9100"}'] = [10, 10, 30, 40, 10, 10]
    assert backtest(series, "-o", "json", dontschedule=[slow]) == 0
    (interval,) = backtest.json()["nodes"]["bad"]["intervals"]
    assert interval["start"] == "2025-11-15T00:02:00.000Z"
    assert interval["end"] == "2025-11-15T00:04:00.000Z"
    assert interval["worst"] > 100
    assert [*backtest.json()["nodes"]] == ["bad"]


def test_metric_that_a_node_never_had_is_absent_and_not_missing(backtest):
    absent = {f'plimsoll_metric_absent{{node="{node}",metric="load1"}}': [1, 1, 1] for node in "bc"}
    load = {'load1{node="a"}': [7, 7, 7]}
    assert backtest(load | absent, "-o", "json") == 0
    assert {*backtest.json()["nodes"]} == {"a"}
    assert backtest.json()["missingShare"] == 0
    assert backtest(load | absent, "--fail-if=missing>0%") == 0
    nan = {f'load1{{node="{node}"}}': [math.nan] * 3 for node in "bc"}
    assert backtest(load | nan, "-o", "json") == 0
    assert backtest.json()["missingShare"] == pytest.approx(2 / 3, abs=1e-6)
    violate = [rule(whenMissing="violate")]
    assert backtest(load | absent, "-o", "json", dontschedule=violate) == 0
    assert {*backtest.json()["nodes"]} == {"a", "b", "c"}


def test_metric_that_no_node_has_is_missing(backtest):
    absent = {'plimsoll_metric_absent{node="a",metric="load1"}': [1, 1, 1]}
    assert backtest(absent, "-o", "json") == 0
    assert backtest.json()["missingShare"] == 1

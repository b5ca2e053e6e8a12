"""`plimsoll test`: unit tests of policies in promtool's notation."""

from pathlib import Path

import pytest
import yaml

from lab import policy_test
from tests.evaluator.conftest import make_tas


def rule(**more):
    return {"metricname": "load1", "operator": "GreaterThan", "target": 6, **more}


@pytest.fixture
def run(tmp_path, capsys):
    def run_tests(series, *expected, **strategies):
        policy = make_tas("load", **(strategies or {"dontschedule": [rule()]}))
        (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy))
        case = {
            "name": "a case",
            "interval": "1m",
            "input_series": [{"series": s, "values": v} for s, v in series.items()],
            "policy_test": [{"policy": "load", **one} for one in expected],
        }
        body = {"policy_files": ["policy.yaml"], "tests": [case], **run_tests.more}
        (tmp_path / "policy_test.yaml").write_text(yaml.safe_dump(body))
        status = policy_test.main([str(tmp_path / "policy_test.yaml")])
        run_tests.out, run_tests.err = capsys.readouterr()
        return status

    run_tests.more = {}
    return run_tests


A, B = 'load1{node="a"}', 'node_load1{instance="b:9100"}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", [(0, 1.0)]),
        ("0+10x3", [(0, 0.0), (1, 10.0), (2, 20.0), (3, 30.0)]),
        ("5-2x2", [(0, 5.0), (1, 3.0), (2, 1.0)]),
        ("4x2 1", [(0, 4.0), (1, 4.0), (2, 4.0), (3, 1.0)]),
        ("1 _ 2", [(0, 1.0), (2, 2.0)]),
        ("1 _x3 stale", [(0, 1.0), (4, None)]),
        ("-1e3+.5x1 Inf", [(0, -1000.0), (1, -999.5), (2, float("inf"))]),
        ("", []),
    ],
)
def test_the_notation_is_that_of_promtool(text, expected):
    assert policy_test.series_values(text) == expected


@pytest.mark.parametrize("text", ["x", "1+2", "1x", "_1", "stale3", "1,2", "0x9999999"])
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match=r"not a value|more than 1000000 values"):
        policy_test.series_values(text)


def test_violating_nodes_reasons_and_labels_are_compared(run):
    reason = "violating load: load1 GreaterThan 6"
    status = run(
        {A: "0+1x10", B: "0x10"},
        {"eval_time": "6m", "exp_nodes": []},
        {"eval_time": "7m", "strategy": "dontschedule", "exp_nodes": ["a"]},
        {"eval_time": "7m", "exp_reasons": {"a": reason}},
        {"eval_time": "7m", "exp_labels": {"a": {"load": "violating"}}},
        dontschedule=[rule()],
        deschedule=[rule()],
    )
    assert status == 0, run.out
    assert "SUCCESS: 1 test, 4 moments" in run.out


def test_for_clear_after_and_staleness_count(run):
    timed = rule(**{"for": "2m", "clearAfter": "3m"})
    status = run(
        {A: "0 7x3 0x9", B: "7x3 _x9"},
        {"eval_time": "2m59s", "exp_nodes": ["b"]},
        {"eval_time": "3m", "exp_nodes": ["a", "b"]},
        {"eval_time": "7m59s", "exp_nodes": ["a", "b"]},
        {"eval_time": "8m", "exp_nodes": ["b"]},
        {"eval_time": "11m", "exp_nodes": ["b"]},
        {"eval_time": "12m", "exp_nodes": []},
        dontschedule=[timed],
    )
    assert status == 0, run.out


def test_a_stale_marker_is_a_missing_reading(run):
    status = run(
        {A: "7 stale 7"},
        {"eval_time": "0s", "exp_nodes": ["a"]},
        {"eval_time": "1m", "exp_nodes": []},
        {"eval_time": "2m", "exp_nodes": ["a"]},
    )
    assert status == 0, run.out


def test_node_conditions_are_series_too(run):
    condition = {"metricname": "node_condition_Ready", "operator": "LessThan", "target": 1}
    series = {'node_condition_Ready{node="a"}': "1 0"}
    expected = {"eval_time": "1m", "exp_nodes": ["a"]}
    assert run(series, expected, dontschedule=[condition]) == 0, run.out


def test_a_failure_shows_expected_and_actual(run):
    status = run(
        {A: "7x5", B: "0x5"},
        {"eval_time": "1m", "exp_nodes": ["b"]},
        {"eval_time": "1m", "exp_reasons": {"b": "because"}},
        {"eval_time": "1m", "exp_labels": {"a": {"x": "z"}}},
    )
    assert status == 1
    assert "a case: policy load at 1m: exp_nodes: b, got: a" in run.out
    assert "exp_reasons of b: 'because', got: 'no violation'" in run.out
    assert "exp_labels: {'a': {'x': 'z'}}, got: {}" in run.out


@pytest.mark.parametrize(
    ("series", "expected", "message"),
    [
        ({A: "oops"}, {"eval_time": "1m"}, "not a value: 'oops'"),
        ({"load1": "1"}, {"eval_time": "1m"}, "it has no label node or instance"),
        ({"load 1": "1"}, {"eval_time": "1m"}, "not a series"),
        ({A: "1"}, {"eval_time": "soon"}, "not a duration: 'soon'"),
        ({A: "1"}, {"eval_time": "1m", "policy": "x"}, "policy x is not one of ns/load"),
        (
            {A: "1"},
            {"eval_time": "1m", "strategy": "x"},
            "strategy x is not one of policy load (dont",
        ),
        ({A: "1"}, {"eval_time": "1m", "exp_nodes": ["z"]}, "node z is not in the input series"),
        ({A: "1"}, {"eval_time": "1m", "exp_node": []}, "unknown field `exp_node`"),
    ],
)
def test_mistakes_in_the_file_get_one_sentence(run, series, expected, message):
    assert run(series, expected) == 2
    assert message in run.err


def test_a_file_that_cannot_be_read_is_an_error(run, tmp_path, capsys):
    assert policy_test.main([str(tmp_path / "none")]) == 2
    (tmp_path / "bad").write_text("a: [")
    assert policy_test.main([str(tmp_path / "bad")]) == 2
    err = capsys.readouterr().err
    assert "cannot be read" in err
    assert "invalid YAML" in err


def test_the_example_in_the_documentation_passes(tmp_path, capsys):
    page = (Path(__file__).parents[2] / "docs" / "backtest.md").read_text()
    example = page.split("```yaml\n")[1].split("```")[0]
    (tmp_path / "policy_test.yaml").write_text(example)
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(make_tas("load", dontschedule=[rule()])))
    assert policy_test.main([str(tmp_path / "policy_test.yaml")]) == 0, capsys.readouterr()


@pytest.mark.parametrize("metric", ["load1", "node_load1"])
@pytest.mark.parametrize("series", ["load1", "node_load1"])
def test_prefix_node_is_optional_on_either_side(run, metric, series):
    given = {f'{series}{{node="a"}}': "1 9 9", f'{series}{{node="b"}}': "1 1 1"}
    expected = {"eval_time": "2m", "exp_nodes": ["a"]}
    assert run(given, expected, dontschedule=[rule(metricname=metric)]) == 0, run.out + run.err


def test_series_with_the_name_of_the_metric_precedes_the_others(run):
    given = {
        'node_load1{node="a"}': "1 1",
        'load1{node="a"}': "9 9",
        'load1{node="b"}': "9 9",
        'node_load1{node="c"}': "9 9",
    }
    expected = {"eval_time": "1m", "exp_nodes": ["b", "c"]}
    assert run(given, expected, dontschedule=[rule(metricname="node_load1")]) == 0, run.out


def test_node_of_a_series_that_no_policy_reads_is_in_the_input(run):
    given = {A: "1 1", 'other{node="b"}': "1 1"}
    assert run(given, {"eval_time": "1m", "exp_reasons": {"b": "no violation"}}) == 0, run.err

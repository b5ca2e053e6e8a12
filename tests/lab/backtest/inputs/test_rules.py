"""Recording rules beside a policy are evaluated over the dump by the agent's engine, in the same command."""

import json

import pytest
import yaml

from lab.backtest import main
from tests.evaluator.conftest import make_tas

BEGIN = 1_763_164_800
RULES = """
groups:
- name: load
  rules:
  - {record: smooth, expr: 'min_over_time(node_load1[30s])'}
  - {record: unused, expr: 'sum(node_other)'}
"""
LOADS = [1, 9, 1, 1, 9, 9, 9, 9, 9, 1]


@pytest.fixture
def backtest(tmp_path, capsys):
    rule = {"metricname": "smooth", "operator": "GreaterThan", "target": 6}
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "policy.yaml").write_text(yaml.safe_dump(make_tas("p", dontschedule=[rule])))
    lines = [
        f'{name}{{instance="{node}:9100"}} {value} {BEGIN + 15 * tick}\n'
        for node, name, values in (
            ("a", "node_load1", LOADS),
            ("b", "node_load1", [1] * 10),
            ("b", "smooth", [9] * 10),
        )
        for tick, value in enumerate(values)
    ]
    (tmp_path / "dump.om").write_text("".join([*lines, "# EOF\n"]))

    def run(*flags, rules=None, named=policies):
        if rules is not None:
            (policies / "rules.yaml").write_text(rules)
        files = ("-f", str(named), "--openmetrics", str(tmp_path / "dump.om"))
        try:
            status = main.main([*files, "-o", "json", *flags])
        except SystemExit as ended:
            status = ended.code
        out, run.err = capsys.readouterr()
        run.nodes = json.loads(out)["policies"][0]["nodes"] if out else {}
        return status

    return run


@pytest.mark.e2e
def test_rules_in_the_folder_of_the_policy_replace_recorded_series(backtest, tmp_path):
    assert backtest() == 0
    assert [*backtest.nodes] == ["b"]
    assert backtest("--cache", str(tmp_path / "cache"), rules=RULES) == 0
    assert [*backtest.nodes] == ["a"]
    (one,) = backtest.nodes["a"]["intervals"]
    assert one["start"] >= "2025-11-15T00:01:15"
    assert one["end"] == "2025-11-15T00:02:15.000Z"
    assert "smooth by the recording rules of" in backtest.err
    changed = RULES.replace("min_over_time", "max_over_time")
    assert backtest("--cache", str(tmp_path / "cache"), rules=changed) == 0
    assert backtest.nodes["a"]["intervals"][0]["start"] < "2025-11-15T00:01:00", "read again"


@pytest.mark.e2e
def test_named_rules_are_used_instead_of_those_in_the_folder(backtest, tmp_path):
    (tmp_path / "own.yaml").write_text(RULES.replace("node_load1[30s]", "node_load1[1s]"))
    assert backtest(f"--rules.file={tmp_path / 'own.yaml'}", rules=RULES) == 0
    assert len(backtest.nodes["a"]["intervals"]) == 2
    assert backtest.err == ""


def test_only_the_named_file_is_read(backtest, tmp_path):
    assert backtest(rules=RULES, named=tmp_path / "policies" / "policy.yaml") == 0
    assert [*backtest.nodes] == ["b"]
    assert backtest.err == ""
    assert backtest(rules="groups: [", named=tmp_path / "policies" / "policy.yaml") == 0


def test_rule_files_that_record_nothing_of_use_are_ignored(backtest):
    assert backtest(rules=RULES.replace("smooth", "other")) == 0
    assert [*backtest.nodes] == ["b"]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (None, "there is no such file of recording rules"),
        ("groups: [", "invalid YAML"),
        ("groups: []", "records nothing, which no policy names"),
        ("groups: [{name: g, rules: [{record: other, expr: '1'}]}]", "records other, which no"),
        (
            "groups: [{name: g, rules: [{record: smooth, expr: 'sum('}]}]",
            "recording rules: rule smooth of g",
        ),
    ],
)
def test_mistakes_get_one_sentence(backtest, tmp_path, rules, message):
    if rules is not None:
        (tmp_path / "own.yaml").write_text(rules)
    assert backtest(f"--rules.file={tmp_path / 'own.yaml'}") == 2
    assert message in backtest.err
    assert "Traceback" not in backtest.err

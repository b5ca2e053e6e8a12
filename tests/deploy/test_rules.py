"""deploy/rules: accepted by promtool, every name has a test, and every input exists.

tests/agent/rules/test_ruletests.py runs the tests in rules/, by promtool and by our own evaluation.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from collectors.registry import COLLECTORS
from evaluator.core.model import resources

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "deploy" / "rules").glob("*.yaml"))
CASES = sorted((Path(__file__).parent / "rules").glob("*.yaml"))
RULES = [
    rule
    for path in FILES
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
]
RECORDED = {rule["record"] for rule in RULES}
OF_OPERATORS = {"node_memory_bandwidth_peak_bytes_per_second"}
"""Read if written to a *.prom file."""


@pytest.fixture
def promtool():
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not on PATH")

    def run(*arguments, cwd=ROOT):
        command = ["promtool", *map(str, arguments)]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)

    return run


def test_rules_are_valid_for_prometheus(promtool):
    done = promtool("check", "rules", *FILES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_recorded_name_has_a_case_with_a_value():
    tested = {
        name
        for path in CASES
        for case in yaml.safe_load(path.read_text())["tests"]
        for one in case["promql_expr_test"]
        if one["exp_samples"]
        for sample in one["exp_samples"]
        for name in re.findall(r"[a-zA-Z_]\w*", one["expr"] + " " + sample["labels"])
    }
    assert tested >= RECORDED


def test_recorded_names_are_valid_in_policies():
    crd = (ROOT / "deploy/crd/taspolicy.yaml").read_text()
    (pattern,) = set(re.findall(r"metricname:\n(?: +\w+: .*\n)*? +pattern: '(.+)'", crd))
    assert [name for name in RECORDED if re.fullmatch(pattern, name) is None] == []


def test_every_metric_read_is_recorded_or_collected():
    tables = [entry.metrics for entry in COLLECTORS.values() if not entry.open_ended]
    for rule in RULES:
        bare = re.sub(r'"[^"]*"', "", str(rule["expr"]))
        named = set(re.findall(r"\b(?:node|rasdaemon|DCGM)_\w+", bare))
        unknown = [
            name
            for name in named - RECORDED - OF_OPERATORS
            if all(table.find(name) is None for table in tables)
        ]
        assert unknown == [], rule["record"]


def test_scorer_inputs_are_recorded():
    assert set(resources.USAGE_METRICS) <= RECORDED


def test_each_name_states_quantity_and_unit():
    text = "\n".join(path.read_text() for path in FILES)
    for word in ("HELP", "UNIT"):
        said = re.findall(rf"^ +# {word} (\w+) .+$", text, re.MULTILINE)
        assert sorted(said) == sorted(RECORDED), word


def test_inputs_and_limits_of_health_correspond():
    limits = {r["labels"]["rule"] for r in RULES if r["record"] == "node_health_rule_limit"}
    inputs = [r["labels"]["rule"] for r in RULES if r["record"] == "node_health_rule_input"]
    assert sorted(inputs) == sorted(limits)

"""docs/policies.md: its policies are valid, and `check` prints what the page shows."""

import re
from pathlib import Path

import yaml

from evaluator.cli.check import main
from evaluator.plans.conditions import TYPES

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
POLICIES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_every_documented_policy_is_valid() -> None:
    assert len(POLICIES) == 3
    for text in POLICIES:
        assert yaml.safe_load(text)["kind"] == "TASPolicy"
        for found in main.check_text("policy.yaml", text):
            assert found.findings.errors == []


def test_check_prints_what_the_page_shows() -> None:
    (shown,) = re.findall(r"\$ plimsoll-evaluator check policy.yaml\n(.*?)```", PAGE, re.DOTALL)
    (found,) = main.check_text("policy.yaml", POLICIES[0])
    assert shown.splitlines() == [*found.findings.lines(), "1 policy, 0 errors, 1 warning"]


def test_every_condition_is_in_the_table() -> None:
    for name in TYPES.values():
        assert f"`{name}`" in PAGE

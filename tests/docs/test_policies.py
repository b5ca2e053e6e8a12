"""docs/policies.md: its policies are valid, and `check` prints what the page shows."""

import re
from pathlib import Path

import pytest
import yaml

from evaluator.core.policy.strategies import STRATEGIES
from evaluator.tools.check import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "policies.md").read_text()
MANIFESTS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
README = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_every_documented_manifest_is_valid() -> None:
    kinds = [yaml.safe_load(text)["kind"] for text in MANIFESTS]
    assert kinds == ["Pod", "TASPolicy", "TASPolicy"]
    for text in MANIFESTS:
        for found in main.check_text("policy.yaml", text):
            assert found.findings.errors == []


def test_check_prints_what_the_page_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shown,) = re.findall(r"\$ plimsoll check policy.yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "policy.yaml").write_text("---\n".join(MANIFESTS[:2]))
    main.main([str(tmp_path / "policy.yaml")])
    assert capsys.readouterr().out.replace(f"{tmp_path}/", "") == shown


def test_first_policy_of_the_readme_has_its_pod_and_no_mistake(tmp_path: Path) -> None:
    (both,) = README
    assert [obj["kind"] for obj in yaml.safe_load_all(both)] == ["TASPolicy", "Pod"]
    (tmp_path / "first.yaml").write_text(both)
    assert main.main(["--strict", str(tmp_path)]) == 0


def test_every_condition_is_in_the_table() -> None:
    for name in (strategy.row.condition for strategy in STRATEGIES.values()):
        assert f"`{name}`" in PAGE

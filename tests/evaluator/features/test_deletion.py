"""An optional feature is deleted with its folder and its line in the list; the rest decides and answers without it."""

import json
import re
import subprocess
import sys

import pytest

from tests.checkout import checkout  # noqa: F401 (a fixture)

pytestmark = pytest.mark.e2e

FEATURES = {
    "node_actions": "taints",
    "evictions": "evict",
    "requeue": "nudge",
    "scorers": "scorers",
    "gangs": "gangs",
    "custom_metrics": "customMetricsPort",
    "history": "history",
    "pages": "explain",
}
"""The optional features, each with one of its flags."""

PROGRAM = "tests/evaluator/features/decide_and_answer.py"
"""Decides and answers, with the core and the extender only."""


HELP = """
import contextlib, importlib
from evaluator.main import COMMANDS
for program, command in [("agent", ""), ("sandbox", ""), ("evaluator", ""), *(("evaluator", c) for c in COMMANDS)]:
    with contextlib.suppress(SystemExit):
        importlib.import_module(program + ".main").main([*command.split(), "--help"])
    print("--end")
"""
"""Prints the help of all programs and commands, in one process: most of the time of each is its imports."""


@pytest.fixture(scope="module")
def every_flag():
    return subprocess.run(
        [sys.executable, "-P", "-c", HELP], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("name", FEATURES)
def test_feature_is_deleted_with_its_folder_and_its_line(checkout, name, every_flag):  # noqa: F811
    assert offered(FEATURES[name], every_flag)
    checkout.remove(f"evaluator/features/{name}")
    checkout.remove(f"tests/evaluator/features/{name}")
    registry = checkout.root / "evaluator/features/registry.py"
    text = registry.read_text()
    assert text.count(f'    "{name}",\n') == 1
    registry.write_text(text.replace(f'    "{name}",\n', ""))
    shown = checkout.run("python", "-P", "-c", HELP)
    assert shown.count("\n--end") == every_flag.count("\n--end") > 10
    assert not offered(FEATURES[name], shown)
    checkout.run("lint-imports", "--no-cache")
    checkout.run("python", "-P", "checks/tree.py")
    answer = checkout.run("python", "-P", PROGRAM).splitlines()
    assert set(json.loads(next(line for line in answer if line.startswith("{")))) == {"node-a"}


def offered(flag: str, shown: str) -> bool:
    """Return whether a program's help lists a flag; it writes switches as `--[no-]flag`."""
    return re.search(rf"^ +--(\[no-\])?{flag}\b", shown, re.MULTILINE) is not None

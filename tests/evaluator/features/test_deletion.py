"""An optional feature is deleted with its folder and its line in the list; the rest decides and answers without it.

Its adapter in `lab` may stay for that: it is not imported. Its types are missing then, so it is deleted with its feature.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from evaluator.features.registry import NAMES
from evaluator.main import COMMANDS
from tests.checkout import ROOT, Checkout, checkout  # noqa: F401 (a fixture)

pytestmark = pytest.mark.e2e

REGISTRY = "evaluator/features/registry.py"

FLAGS = {
    "stop": "",
    "memory": "",
    "node_actions": "taints",
    "problems": "problemConditions",
    "evictions": "evict",
    "requeue": "nudge",
    "scorers": "scorers",
    "gangs": "gangs",
    "custom_metrics": "customMetricsPort",
    "history": "history",
    "pages": "explain",
}
"""One flag of each optional feature; `stop` and `memory` have none."""
FEATURES = [name for name in FLAGS if name in NAMES]

PROGRAM = Path(__file__).with_name("without.py")
"""Prints the help of all commands, and decides and answers, in trees without a feature."""


SUITES = ("bench", "browser", "cluster", "deploy", "docs", "evaluator", "fuzz", "headlamp")
SUITES += ("lab", "newcomer", "sandbox", "security", "soak", "together")
"""The folders of tests that import the evaluator."""


def lines_without(*names: str) -> str:
    """Return the list of features without some of them."""
    text = (ROOT / REGISTRY).read_text()
    for name in names:
        assert text.count(f'    "{name}",\n') == 1
        text = text.replace(f'    "{name}",\n', "")
    return text


def linked(folder: Path, name: str = "") -> Path:
    """Make a tree of links to the packages of this one, without a feature and its line in the list."""
    features = folder / "evaluator/features"
    features.mkdir(parents=True)
    for inside, left_out in (("", "evaluator"), ("evaluator", "features")):
        for path in (ROOT / inside).iterdir():
            if path.name not in {left_out, "__pycache__"} and not path.name.startswith("."):
                (folder / inside / path.name).symlink_to(path)
    for path in (ROOT / "evaluator/features").iterdir():
        if path.name not in {name, "registry.py", "__pycache__"}:
            (features / path.name).symlink_to(path)
    (features / "registry.py").write_text(lines_without(*filter(None, [name])))
    return folder


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Trees without a feature, by its name, and the whole one as ``; each has what its evaluator printed as files."""
    folder = tmp_path_factory.mktemp("trees")
    made = {name: linked(folder / f"no-{name}", name) for name in ("", *FEATURES)}
    command = [sys.executable, "-P", str(PROGRAM), str(ROOT), *map(str, made.values())]
    subprocess.run(command, check=True)
    return made


@pytest.mark.parametrize("name", FEATURES)
def test_feature_is_deleted_with_its_folder_and_its_line(trees: dict[str, Path], name: str) -> None:
    tree, all_help = trees[name], (trees[""] / "help").read_text()
    assert (tree / "output").read_text() == ""
    assert not (tree / f"evaluator/features/{name}").exists()
    shown = (tree / "help").read_text()
    assert shown.count("\n--end") == all_help.count("\n--end") == 1 + len(COMMANDS)
    if flag := FLAGS[name]:
        assert offered(flag, all_help)
        assert not offered(flag, shown)
    answer = (tree / "answer").read_text().splitlines()
    assert set(json.loads(next(line for line in answer if line.startswith("{")))) == {"node-a"}


def test_contracts_and_layout_hold_without_the_features(checkout: Checkout) -> None:  # noqa: F811
    """Without all of them, and so without any: what names a deleted module is found, and fewer modules import no more."""
    for name in FEATURES:
        checkout.delete_feature(name)
    checkout.run("lint-imports", "--no-cache")
    checkout.run("python", "-P", "checks/tree.py")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "extender"])
def test_other_tests_are_collected_without_a_feature(checkout: Checkout, name: str) -> None:  # noqa: F811
    """Any but the one that answers kube-scheduler, without which nothing can be simulated."""
    checkout.delete_feature(name)
    folders = [f"tests/{suite}" for suite in SUITES]
    checkout.run("pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", *folders)


def offered(flag: str, shown: str) -> bool:
    """Return whether a program's help lists a flag; it writes switches as `--[no-]flag`."""
    return re.search(rf"^ +--(\[no-\])?{flag}\b", shown, re.MULTILINE) is not None

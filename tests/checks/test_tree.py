"""checks/tree.py finds each violation that it checks for."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRACT = """
[[tool.importlinter.contracts]]
name = "decisions do no I/O and read no clock"
source_modules = {modules}
"""


@pytest.fixture
def check():
    return runpy.run_path(str(ROOT / "checks" / "tree.py"))


@pytest.fixture
def tree(tmp_path, check):
    """A tree without findings."""
    for package in check["PACKAGES"]:
        write(tmp_path, f"{package}/__init__.py", '"""What belongs here."""\n')
    (tmp_path / "pyproject.toml").write_text(CONTRACT.format(modules=["evaluator.core.model"]))
    return tmp_path


def write(root, name, text=""):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def findings(check, root, capsys):
    status = check["main"](root)
    found = capsys.readouterr().out.splitlines()
    assert status == bool(found)
    return found


def test_clean_tree_has_no_findings(check, tree, capsys):
    assert findings(check, tree, capsys) == []


def test_package_without_a_docstring_is_found(check, tree, capsys):
    write(tree, "agent/web/__init__.py")
    write(tree, "agent/eval/run.py")
    found = findings(check, tree, capsys)
    assert [line.partition(":")[0] for line in found] == ["agent.eval", "agent.web"]


def test_purity_contract_that_lists_modules_is_found(check, tree, capsys):
    count = check["MOST_PURE_ENTRIES"] + 1
    modules = [f"evaluator.m{number}" for number in range(count)]
    (tree / "pyproject.toml").write_text(CONTRACT.format(modules=modules))
    (found,) = findings(check, tree, capsys)
    assert f"{count} entries" in found


def test_missing_purity_contract_is_found(check, tree, capsys):
    (tree / "pyproject.toml").write_text("[tool.importlinter]\ncontracts = []\n")
    (found,) = findings(check, tree, capsys)
    assert "no contract" in found


def test_class_name_with_four_owners_is_found(check, tree, capsys):
    for number in range(3):
        write(
            tree, f"sandbox/m{number}.py", "class Pace:\n    pass\n\n\nclass Options:\n    pass\n"
        )
    assert findings(check, tree, capsys) == []
    write(tree, "wire/m.py", "class Pace:\n    pass\n\n\nclass Options:\n    pass\n")
    (found,) = findings(check, tree, capsys)
    assert found.startswith("class Pace is defined 4 times")

"""References in the documents exist: tests, files, headings, flags."""

import ast
import itertools
import re
from pathlib import Path

import pytest

import agent.config
from agent import node_exporter
from docs import promises
from evaluator.config import Settings
from evaluator.features.registry import NAMES
from plimsoll import flags

ROOT = Path(__file__).parents[2]
DOCS = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "SUPPORT.md", "CODE_OF_CONDUCT.md"]
DOCS += ["examples/systemd/README.md", "headlamp/README.md"]
DOCS += sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))
DOCS += sorted(str(path.relative_to(ROOT)) for path in (ROOT / "deploy").rglob("*.md"))
OTHERS = {"query.lookback-delta"}
"""Flags of other programs: Prometheus'."""
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def text_of(name: str) -> str:
    """A document without its code blocks."""
    return re.sub(r"^```.*?^```", "", (ROOT / name).read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """The headings of a document as link anchors."""
    found = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    bare = [re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in found]
    return set(bare)


@pytest.mark.parametrize("name", DOCS)
def test_named_tests_exist(name: str) -> None:
    for path, test in set(TEST.findall((ROOT / name).read_text())):
        assert (ROOT / path).is_file(), path
        assert re.search(rf"def {test}\(", (ROOT / path).read_text()), f"{path}::{test}"


@pytest.mark.parametrize("name", DOCS)
def test_links_have_targets(name: str) -> None:
    here = ROOT / name
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(name)):
        if target.startswith(("https:", "http:", "mailto:")):
            continue
        file, _, anchor = target.partition("#")
        path = (here.parent / file).resolve() if file else here
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path), target


def known_flags() -> set[str]:
    """Every flag of the two programs, without its dashes."""
    classes = [Settings, *itertools.chain.from_iterable(agent.config.GROUPS.values())]
    own = {option.flag for settings in classes for _, option in flags.options(settings)}
    return own | node_exporter.IGNORED.keys()


@pytest.mark.parametrize("name", DOCS)
def test_named_flags_exist(name: str) -> None:
    """The evaluator's flags have capitals, the agent's dots; flags of other programs have neither."""
    written = re.findall(r"`?--([a-z]+[A-Z]\w*|[a-z]+(?:\.[\w-]+)+)", (ROOT / name).read_text())
    wrong = {flag for flag in written if flag.rstrip(".") not in known_flags()} - OTHERS
    assert wrong == set()


def test_every_row_about_tas_names_a_test() -> None:
    rows = re.findall(
        r"^\| (.+) \|$", (ROOT / "docs/tas-compatibility.md").read_text(), re.MULTILINE
    )
    cells = [row.split(" | ") for row in rows if not row.startswith("what |")]
    body = [row for row in cells if row[-1] != "held by"]
    assert len(body) > 50
    assert [row[0] for row in body if not TEST.search(row[-1])] == []


def test_every_security_promise_names_a_test() -> None:
    """Each claim about what an attacker cannot do needs a test."""
    listed = [promise for table in promises.read().values() for promise in table]
    assert len(listed) > 90
    assert [promise for promise in listed if not promise["tests"]] == []


def test_every_table_of_security_promises_is_shown() -> None:
    assert promises.read().keys() == promises.TITLES.keys()


def test_decisions_are_in_order():
    text = (ROOT / "docs/decisions.md").read_text()
    numbers = [int(number) for number in re.findall(r"^\*\*(\d+)\. ", text, re.MULTILINE)]
    assert numbers == sorted(numbers)


def test_fuzz_readme_names_files_that_exist():
    folder = ROOT / "tests/fuzz"
    named = re.findall(r"`([a-z_]+\.py)`", (folder / "README.md").read_text())
    assert named
    assert [name for name in named if not (folder / name).is_file()] == []


def test_modules_in_decisions_exist():
    text = (ROOT / "docs/decisions.md").read_text()
    named = re.findall(r"`((?:core|features|tools)(?:\.[a-z_]+)+)\.[A-Z]\w+`", text)
    paths = [ROOT / "evaluator" / f"{name.replace('.', '/')}.py" for name in named]
    assert paths
    assert [path for path in paths if not path.is_file()] == []


BASES = ("", "evaluator/features", "collectors")
"""Where the paths in a document begin."""


@pytest.mark.parametrize("name", DOCS)
def test_named_modules_exist(name: str) -> None:
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", text_of(name)))
    absent = [path for path in named if not any((ROOT / base / path).is_file() for base in BASES)]
    assert absent == []


def functions(module: Path) -> set[str]:
    """The functions of a module, and the methods of its classes as Class.method."""
    tree = ast.parse(module.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    methods = {f"{c.name}.{f.name}" for c in classes for f in c.body if isinstance(f, kinds)}
    return methods | {node.name for node in tree.body if isinstance(node, kinds)}


def test_every_feature_is_in_the_table():
    text = (ROOT / "docs/architecture.md").read_text()
    table = text.partition("| feature | what it does |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == list(NAMES)


def test_every_package_of_the_core_is_in_the_table():
    text = (ROOT / "docs/architecture.md").read_text()
    table = text.partition("| package | contents | pure |")[2].partition("\n\n")[0]
    cells = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    core = ROOT / "evaluator/core"
    modules = {path.stem for path in core.glob("*.py")} - {"__init__"}
    packages = {path.parent.name for path in core.glob("*/__init__.py")}
    assert sorted(named) == sorted(modules | packages)

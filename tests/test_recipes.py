"""The recipes in CONTRIBUTING.md, all followed literally in one copy of the tree."""

import json
import re
import shutil
from collections.abc import Iterator

import pytest

from tests import recipes
from tests.checkout import ROOT, Checkout, get, scrape

pytestmark = pytest.mark.e2e

MOST_LINES = 10
NAMES = {"NAME": "toy", "CLASS": "Toy", "CONSTANT": "TOY"}
FUNCTION = {"NAME": "deg"}
"""A function that Prometheus has and the agent lacks."""
RENAMED = {
    "collectors/toy.py": {"node_entropy_": "node_toy_", "Entropy": "Toy"},
    "tests/collectors/test_toy.py": {
        "node_entropy_": "node_toy_",
        "Entropy": "Toy",
        "collectors.entropy": "collectors.toy",
    },
    "evaluator/features/toy/feature.py": {"example": "toy", "Example": "Toy"},
    "evaluator/features/toy/page.py": {"example": "toy", "Example": "Toy"},
    "evaluator/features/toy/templates/toy.html": {"example": "toy"},
    "evaluator/features/toy/action.py": {"example": "toy", "Example": "Toy"},
    "evaluator/features/scorers/plugins/toy.py": {"template": "toy", "Template": "Toy"},
    "tests/evaluator/features/scorers/plugins/test_toy.py": {"template": "toy", "Template": "Toy"},
}
"""How the copied files are edited."""
MATH = "agent/rules/promql/functions/math.py"
SCORER = "from evaluator.features.scorers.plugins.toy import Toy\n"
IMPORTING = {
    "evaluator/features/scorers/registry.py": SCORER,
    "tests/evaluator/features/scorers/scorers.py": SCORER,
    "evaluator/features/toy/feature.py": (
        "from evaluator.core.policy.vocabulary import Vocabulary\n"
        "from evaluator.features.toy.action import ACTION\n"
        "from evaluator.features.toy.page import ToyObject, ToyPage, section\n"
    ),
}
"""Imports that recipes ask for, by file."""
OBJECT = 'section({"shop/a": ToyObject("fine")})'
FEATURES = "| `pages` | `/explain`, and pages for a browser |\n"


def edit(checkout: Checkout, file: str, *pairs: tuple[str, str]) -> None:
    path = checkout.root / file
    text = path.read_text()
    for old, new in pairs:
        assert old in text, (file, old)
        text = text.replace(old, new)
    path.write_text(text)


def add_import(checkout: Checkout, file: str, line: str) -> None:
    path = checkout.root / file
    text = path.read_text()
    at = text.index("\nfrom evaluator.") + 1
    path.write_text(text[:at] + line + text[at:])


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A copy of the tree in which each recipe was followed, with the name `toy`."""
    checkout = Checkout(tmp_path_factory.mktemp("recipes") / "plimsoll")
    for title in recipes.titles():
        recipes.follow(checkout, title, FUNCTION if "PromQL" in title else NAMES)
    for file, pairs in RENAMED.items():
        edit(checkout, file, *pairs.items())
    (part,) = re.findall(r"`(PagePart\(.*\))`", recipes.recipe("Add a page").text)
    part = part.replace("example", "toy").replace("section({})", OBJECT)
    edit(checkout, "evaluator/features/toy/feature.py", ("PagePart(evaluator=toy.fields)", part))
    (vocabulary,) = re.findall(
        r"`(vocabulary=[^`]*)`", recipes.recipe("Add an action on nodes").text
    )
    edit(
        checkout,
        "evaluator/features/toy/feature.py",
        ("wire=wire, ", f"wire=wire, {vocabulary}, "),
        ("(ToyFields,)", "(ToyFields, ToyPage)"),
    )
    for file, line in IMPORTING.items():
        add_import(checkout, file, line)
    edit(checkout, "docs/architecture.md", (FEATURES, f"| `toy` | a test |\n{FEATURES}"))
    doc = '"""Return deg of a value."""\n    return '
    edit(checkout, MATH, (f"{doc}value", f"{doc}math.degrees(value)"))
    edited = [*RENAMED, *IMPORTING]
    modules = [name for name in edited if name.endswith(".py")]
    checkout.run("ruff", "check", "--fix", *modules)
    checkout.run("ruff", "format", *modules)
    checkout.make("docs")
    return checkout


@pytest.fixture(scope="module")
def evaluator(followed: Checkout) -> Iterator[str]:
    """The address of an evaluator's operations port, with the flag and the scorer of the recipes on."""
    with followed.evaluator("--toy", "--scorers=toy") as address:
        yield address


@pytest.mark.parametrize("title", recipes.titles())
def test_recipe_is_short(title: str) -> None:
    assert recipes.recipe(title).lines <= MOST_LINES


def test_add_a_collector(followed: Checkout) -> None:
    row = "| `toy` | on | available entropy |"
    assert row in (followed.root / "docs/collectors.md").read_text()
    with followed.agent() as address:
        assert "\nnode_toy_pool_size_bits " in scrape(address)


def test_add_a_promql_function(followed: Checkout) -> None:
    (followed.root / "node.prom").write_text('m{a="b"} 3.141592653589793\n')
    shown = followed.run("python", "-P", "-m", "agent", "eval", "deg(m)", "--at=node.prom")
    assert shown.startswith('{a="b"} => 180 ')


def test_add_a_feature(evaluator: str) -> None:
    assert json.loads(get(evaluator, "/policies.json"))["evaluator"]["toy"] == 0


def test_add_a_page(evaluator: str) -> None:
    listed = get(evaluator, "/toy")
    assert "shop/a" in listed
    assert "fine" in listed
    assert "shop/a" in get(evaluator, "/toy/shop/a")
    assert json.loads(get(evaluator, "/explain?toy=shop/a"))["objects"] == {
        "shop/a": {"state": "fine"}
    }


POLICY = """
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata: {name: p, namespace: shop, annotations: {plimsoll.io/actions: toy, plimsoll.io/toy-wait: "5"}}
spec:
  strategies:
    toy:
      rules: [{metricname: load1, operator: GreaterThan, target: 8}]
"""
CASES = """
policy_files: [policy.yaml]
tests:
  - interval: 1m
    input_series: [{series: 'load1{node="a"}', values: '9x9'}, {series: 'load1{node="b"}', values: '1x9'}]
    policy_test: [{eval_time: 8m, policy: p, strategy: toy, exp_nodes: [a]}]
"""


@pytest.fixture(scope="module")
def described(followed: Checkout) -> str:
    """What `check` says about a policy with the strategy and the action of the recipes."""
    (followed.root / "policy.yaml").write_text(POLICY)
    return followed.run("python", "-P", "-m", "evaluator", "check", "--strict", "policy.yaml")


def test_add_a_strategy(followed: Checkout, described: str) -> None:
    assert "toy: where this rule matches, acts" in described
    (followed.root / "cases.yaml").write_text(CASES)
    followed.run("python", "-P", "-m", "evaluator", "test", "cases.yaml")


def test_add_an_action_on_nodes(described: str) -> None:
    assert "toy on violating nodes after 5 min" in described


def test_add_a_scorer(followed: Checkout, evaluator: str) -> None:
    assert evaluator, "an unknown scorer would have ended the evaluator"
    followed.run("pytest", "-q", "tests/evaluator/features/scorers/plugins/test_toy.py")


def test_add_a_flag(followed: Checkout, evaluator: str) -> None:
    assert evaluator, "an unknown flag would have ended the evaluator"
    assert "| `--toy` | `false` |" in (followed.root / "docs/flags.md").read_text()


def test_add_an_evaluator_metric(followed: Checkout, evaluator: str) -> None:
    assert "\nplimsoll_toy_total 0.0\n" in scrape(evaluator)
    assert "| `plimsoll_toy_total` |" in (followed.root / "docs/metrics.md").read_text()


def test_tree_with_all_recipes_passes_make_check(followed: Checkout) -> None:
    if (cache := ROOT / ".mypy_cache").exists():
        shutil.copytree(cache, followed.root / cache.name)
    followed.make("check")
    followed.run("pytest", "-q", "tests/collectors/test_toy.py", "tests/collectors/registry")

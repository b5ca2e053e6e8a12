"""Each walk of docs/walks.md can be followed from one row to the next, without a search."""

import ast
import itertools

import pytest

from tests.docs.walks import ROOT, signals, walks

PROGRAMS = ("agent", "collectors", "evaluator", "wire")


def nodes(step):
    """The syntax of a function of a walk. Fails if its module does not define it."""
    tree = ast.parse((ROOT / step.module).read_text())
    owner, _, name = step.function.rpartition(".")
    bodies = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == owner]
    (body,) = bodies if owner else [tree]
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    found = [n for n in body.body if isinstance(n, kinds) and n.name == name]
    assert found, f"{step.module} defines no {step.function}"
    return list(ast.walk(found[-1]))


def names(found):
    """The names and attributes that a function uses."""
    attributes = {node.attr for node in found if isinstance(node, ast.Attribute)}
    return attributes | {node.id for node in found if isinstance(node, ast.Name)}


def last(step):
    return step.function.rpartition(".")[2]


def is_passed(step):
    """Whether some call of the programs has the function as an argument."""
    for program in PROGRAMS:
        for path in (ROOT / program).rglob("*.py"):
            if last(step) in (text := path.read_text()):
                for node in ast.walk(ast.parse(text)):
                    given = (
                        [*node.args, *(k.value for k in node.keywords)]
                        if isinstance(node, ast.Call)
                        else []
                    )
                    if any(
                        getattr(one, "attr", getattr(one, "id", "")) == last(step) for one in given
                    ):
                        return True
    return False


def follows(here, there):
    """Whether a row leads to the next one in the way that it says."""
    match here.then:
        case "":
            return last(there) in names(nodes(here))
        case "returns to":
            return last(here) in names(nodes(there))
        case "keeps for":
            return here.module.split("/")[:-1] == there.module.split("/")[:-1]
        case "wakes":
            return here.module == there.module and "_wakeup" in names(nodes(here))
        case "passed as an argument":
            return is_passed(there) or is_passed(here)
        case "gRPC":
            return here.module.startswith("agent/") and there.module.startswith(
                "evaluator/core/sources/agents/"
            )
        case signal:
            by, reactions = signals()[signal]
            return here.function in by and there.function in reactions


@pytest.mark.parametrize("name", walks())
def test_each_row_of_a_walk_leads_to_the_next(name):
    steps = walks()[name]
    assert len(steps) > 4
    broken = [
        f"{here.function} -> {there.function} ({here.then or 'calls'})"
        for here, there in itertools.pairwise(steps)
        if not follows(here, there)
    ]
    assert broken == []
    for step in steps:
        nodes(step)


def test_the_walks_are_those_of_the_five_questions():
    assert len(walks()) == 5


def test_every_signal_is_published_and_some_function_reacts():
    assert [name for name, (by, reactions) in signals().items() if not by or not reactions] == []

"""The recipes in CONTRIBUTING.md, followed literally in a copy of the tree."""

import re
import shutil
from collections.abc import Iterator

import pytest

from tests.checkout import ROOT, Checkout, checkout, scrape  # noqa: F401 (a fixture)

pytestmark = pytest.mark.e2e

MOST_LINES = 10


def recipe(title: str) -> tuple[list[str], int]:
    """Return the commands of a recipe and how many lines it has, without blank ones."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (section,) = re.findall(rf"^### {title}\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL)
    commands = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert commands is not None
    lines = [line for line in section.splitlines() if line.strip() and "```" not in line]
    return commands.group(1).splitlines(), len(lines)


def follow(checkout: Checkout, commands: list[str], name: str) -> Iterator[str]:  # noqa: F811
    """Run commands one after the other with NAME replaced; yield each before it runs.

    make does not install: the copy uses the virtual environment of the tests.
    """
    for template in commands:
        command = template.replace("NAME", name)
        yield command
        checkout.shell(re.sub(r"\bmake\b", "make -o .venv/.installed", command, count=1))


def edit(checkout: Checkout, file: str, *pairs: tuple[str, str]) -> None:  # noqa: F811
    path = checkout.root / file
    text = path.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


def test_add_a_collector(checkout) -> None:  # noqa: F811
    commands, lines = recipe("Add a collector")
    assert lines <= MOST_LINES
    if (cache := ROOT / ".mypy_cache").exists():
        shutil.copytree(cache, checkout.root / cache.name)
    module, test = "collectors/toy.py", "tests/collectors/test_toy.py"
    edited = False
    for command in follow(checkout, commands, "toy"):
        if command.startswith("make") and not edited:
            edit(checkout, module, ("node_entropy_", "node_toy_"), ("Entropy", "Toy"))
            edit(checkout, test, ("node_entropy_", "node_toy_"), ("Entropy", "Toy"))
            edit(checkout, test, ("collectors.entropy", "collectors.toy"))
            checkout.run("ruff", "check", "--fix", module, test)
            edited = True
    assert edited
    assert (
        "| `toy` | on | available entropy |" in (checkout.root / "docs/collectors.md").read_text()
    )
    with checkout.agent() as address:
        assert "\nnode_toy_pool_size_bits " in scrape(address)

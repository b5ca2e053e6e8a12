"""Recipes of CONTRIBUTING.md, and how they are followed: commands run, code is entered where the text says.

Text before a block of code names a file, the definition in it that the code is added to, and the entry before which:
"in `DEFINITION` of `path`, before `entry`:". Without a definition, the code is appended to the file.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tests.checkout import ROOT, Checkout

_PLACE = re.compile(r"(?:`([\w.]+)` of )?`([\w./]+\.py)`(?:, before `(\w+)`)?")


@dataclass(frozen=True)
class Block:
    """A block of code, its language, and the text before it."""

    text: str
    language: str
    code: str


@dataclass(frozen=True)
class Recipe:
    """A recipe: its blocks in their order, and how many lines it has, without blank ones and the marks of blocks."""

    text: str
    blocks: tuple[Block, ...]
    lines: int


def titles() -> list[str]:
    """Return the titles of all recipes."""
    return re.findall(r"^### (.+)$", _section("## Recipes"), re.MULTILINE)


def recipe(title: str) -> Recipe:
    """Return a recipe."""
    text = re.sub(r"<!--.*?-->", "", _section(f"### {title}"), flags=re.DOTALL)
    blocks = re.findall(r"((?:(?!```).)*?)```(\w+)\n(.*?)```", text, re.DOTALL)
    lines = [line for line in text.splitlines() if line.strip() and "```" not in line]
    return Recipe(text, tuple(Block(*block) for block in blocks), len(lines))


def follow(checkout: Checkout, title: str, names: Mapping[str, str]) -> None:
    """Follow a recipe with its placeholders replaced."""
    for block in recipe(title).blocks:
        code = _replaced(block.code, names)
        if block.language == "sh":
            for command in code.splitlines():
                checkout.shell(command)
        else:
            enter(checkout, _replaced(block.text, names), code)


def enter(checkout: Checkout, text: str, code: str) -> None:
    """Enter code in the file that a text names last."""
    definition, path, entry = _PLACE.findall(text)[-1]
    file = checkout.root / path
    lines = file.read_text().splitlines(keepends=True)
    at = _end(lines, definition, entry) if definition else len(lines)
    blank = "" if definition else "\n\n"
    file.write_text("".join([*lines[:at], blank, code, *lines[at:]]))


def _end(lines: list[str], definition: str, entry: str) -> int:
    """Return the line before which an addition to a definition belongs."""
    body = ast.parse("".join(lines)).body
    for name in definition.split("."):
        node = next(node for node in body if name in _names(node))
        body = getattr(node, "body", [])
    assert node.end_lineno is not None
    if entry:
        within = range(node.lineno, node.end_lineno)
        return next(number for number in within if f'"{entry}"' in lines[number])
    closing = 1 if isinstance(node, ast.Assign | ast.AnnAssign) else 0
    return node.end_lineno - closing


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return [name]
    return []


def _replaced(text: str, names: Mapping[str, str]) -> str:
    for placeholder, name in names.items():
        text = re.sub(rf"{placeholder}(?![A-Z](?![a-z]))", name, text)
    return text


def _section(heading: str) -> str:
    level = heading.partition(" ")[0]
    text = (ROOT / "CONTRIBUTING.md").read_text()
    pattern = rf"^{re.escape(heading)}\n(.*?)(?=^#{{2,{len(level)}}} |\Z)"
    (section,) = re.findall(pattern, text, re.MULTILINE | re.DOTALL)
    return str(section)

"""The walks of docs/walks.md, and the table of signals of docs/architecture.md."""

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Step(NamedTuple):
    """A function, its module, and how the next one follows."""

    function: str
    module: str
    then: str


def text(name):
    return (ROOT / "docs" / name).read_text()


def rows(table):
    """The cells of the rows of a table."""
    found = [row.strip("|").split(" | ") for row in table.splitlines() if row.startswith("| ")]
    return [[cell.strip(" |") for cell in row] for row in found[1:]]


def walks():
    """The steps of each walk, by its title."""
    found = tomllib.loads(text("walks.toml"))
    return {title: [Step(*step) for step in walk["steps"]] for title, walk in found.items()}


def signals():
    """By signal, the functions that publish it and those that react."""
    table = (
        text("architecture.md")
        .partition("<!-- signals: begin -->")[2]
        .partition("<!-- signals: end -->")[0]
    )
    return {
        name.strip("`"): (re.findall(r"`([\w.]+)`", by), re.findall(r"`([\w.]+)`", reactions))
        for name, _when, by, reactions in ([*row, "", ""][:4] for row in rows(table))
    }

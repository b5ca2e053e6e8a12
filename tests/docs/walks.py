"""The walks and the table of signals of docs/architecture.md."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Step(NamedTuple):
    """A function, its module, and how the next one follows."""

    function: str
    module: str
    then: str


def text():
    return (ROOT / "docs/architecture.md").read_text()


def rows(table):
    """The cells of the rows of a table."""
    found = [row.strip("|").split(" | ") for row in table.splitlines() if row.startswith("| ")]
    return [[cell.strip(" |") for cell in row] for row in found[1:]]


def walks():
    """The steps of each walk, by its heading."""
    section = text().partition("## Five walks")[2].partition("\n## ")[0]
    found = {}
    for part in section.split("\n### ")[1:]:
        heading, _, table = part.partition("\n")
        cells = [[*row, ""][:3] for row in rows(table)]
        found[heading] = [Step(f.strip("`"), m.strip("`"), then) for f, m, then in cells]
    return found


def signals():
    """By signal, the functions that publish it and those that react."""
    table = text().partition("<!-- signals: begin -->")[2].partition("<!-- signals: end -->")[0]
    return {
        name.strip("`"): (re.findall(r"`([\w.]+)`", by), re.findall(r"`([\w.]+)`", reactions))
        for name, _when, by, reactions in ([*row, "", ""][:4] for row in rows(table))
    }

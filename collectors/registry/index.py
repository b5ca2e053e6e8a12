"""The index: what the agent has to know of a collector before its module is imported. `make docs` writes it.

Without it, an agent would import all collectors to know their flags, and keep those in memory that it never runs. A
collector that is not in the index is imported; one that is in it and has no module is ignored. If the code no longer
reads the file, delete it.
"""

import json
import os.path
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from collectors.interface.entry import Entry, NoOptions
from collectors.interface.metric import Metric
from collectors.registry import flagrows
from collectors.registry.registered import Registered, load

FILE = Path(__file__).with_name("index.json")

Row = Mapping[str, Any]
"""An entry as JSON: the fields of `Registered` that are not the default."""

_PLAIN = {"about", "on", "source", "needs", "open_ended", "optional", "slow"}
_GENERAL = len("node_")


def registered(names: Iterable[str]) -> Iterable[Registered]:
    """Return the collectors of these names, as the index has them or, if it does not, their modules."""
    rows: Mapping[str, Row] = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in names:
        yield from_row(name, rows.get(name) or row(load(name)))


def text(entries: Mapping[str, Entry]) -> str:
    """Return the index of these collectors, one line for each."""
    lines = (f"{json.dumps(name)}: {json.dumps(row(entries[name]))}" for name in sorted(entries))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def row(entry: Entry) -> Row:
    """Return an entry as a row of the index."""
    described: dict[str, Any] = {
        field.name: value
        for field in fields(Entry)
        if field.name in _PLAIN and (value := getattr(entry, field.name)) != field.default
    }
    if entry.options is not NoOptions:
        described["options"] = flagrows.rows(entry.options)
    return {**described, "prefixes": prefixes(entry.metrics)}


def from_row(name: str, row: Row) -> Registered:
    """Return the collector of a row."""
    given = {**row, "prefixes": tuple(row["prefixes"])}
    if "options" in row:
        given["options"] = flagrows.options(name, row["options"])
    return Registered(name=name, **given)


def prefixes(metrics: Iterable[Metric]) -> list[str]:
    """Return what the names of a collector's metrics begin with: one prefix if it is more than `node_`."""
    names = sorted({metric.name.partition("<")[0] for metric in metrics})
    common = os.path.commonprefix(names)  # noqa: RUF071 (characters are meant)
    return [common] if "_" in common[_GENERAL:] else names

"""The index: what the agent has to know of a collector before its module is imported. `make docs` writes it.

Without it, an agent would import all collectors to know their flags, and keep those in memory that it never runs. A
collector that is not in the index is imported; one that is in it and has no module is ignored. If the code no longer
reads the file, delete it.
"""

import dataclasses
import json
import os.path
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from collectors.interface.entry import Entry, NoOptions
from collectors.interface.metric import Metric
from collectors.registry.registered import Registered, load
from plimsoll import flags
from plimsoll.flags import (
    boolean,
    count,
    count_or_zero,
    duration,
    option,
    port,
    positive_duration,
    size,
    size_or_zero,
)

FILE = Path(__file__).with_name("index.json")

Row = Mapping[str, Any]
"""An entry as JSON: the fields of `Registered` that are not the default."""
FlagRow = Mapping[str, Any]
"""A flag as JSON: the field's name and the arguments of `plimsoll.flags.option`.

`parse` is a name in `_PARSERS`, or null for another function; then the collector's module parses the text.
"""

_PLAIN = {"about", "on", "source", "needs", "open_ended", "optional", "slow"}
_GENERAL = len("node_")
_PARSERS = {
    parse.__name__: parse
    for parse in (
        str,
        boolean,
        count,
        count_or_zero,
        duration,
        port,
        positive_duration,
        size,
        size_or_zero,
    )
}


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
        described["options"] = flag_rows(entry.options)
    return {**described, "prefixes": prefixes(entry.metrics)}


def from_row(name: str, row: Row) -> Registered:
    """Return the collector of a row."""
    given = {**row, "prefixes": tuple(row["prefixes"])}
    if "options" in row:
        given["options"] = options_of(name, row["options"])
    return Registered(name=name, **given)


def prefixes(metrics: Iterable[Metric]) -> list[str]:
    """Return what the names of a collector's metrics begin with: one prefix if it is more than `node_`."""
    names = sorted({metric.name.partition("<")[0] for metric in metrics})
    common = os.path.commonprefix(names)  # noqa: RUF071 (characters are meant)
    return [common] if "_" in common[_GENERAL:] else names


def flag_rows(options: type[Any]) -> list[FlagRow]:
    """Return the flags of a collector's options."""
    return [
        {
            "field": field.name,
            "default": field.default,
            **{key: value for key, value in dataclasses.asdict(opt).items() if value != ""},
            "parse": next((name for name, known in _PARSERS.items() if known is opt.parse), None),
        }
        for field, opt in flags.options(options)
    ]


def options_of(name: str, rows: Iterable[FlagRow]) -> type[Any]:
    """Return the options with these flags; the dataclass imports the collector's module to check values that are not the defaults."""

    def check(self: Any) -> None:
        given = {
            field.name: value
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) != field.default
        }
        if given:
            load(name).options(**given)

    return dataclasses.make_dataclass(
        "Options",
        [(row["field"], Any, _field(name, row)) for row in rows],
        bases=(NoOptions,),
        namespace={"__post_init__": check},
        frozen=True,
        repr=False,
    )


def _field(name: str, row: FlagRow) -> Any:
    def parse_in_module(text: str) -> Any:
        by_field = {field.name: opt for field, opt in flags.options(load(name).options)}
        return by_field[row["field"]].parse(text)

    default = row["default"]
    return option(
        row["flag"],
        tuple(default) if isinstance(default, list) else default,
        row["help"],
        env=row.get("env", ""),
        metavar=row.get("metavar", ""),
        parse=_PARSERS.get(row["parse"], parse_in_module),
    )

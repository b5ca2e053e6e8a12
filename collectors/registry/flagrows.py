"""Flags of collectors as rows of the index, and back as a dataclass that does not need the collector's module."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from collectors.interface.entry import NoOptions
from collectors.registry.registered import load
from plimsoll import flags
from plimsoll.flags import boolean, count, duration, option, port, positive_duration, size

Row = Mapping[str, Any]
"""A flag as JSON: the field's name and the arguments of `plimsoll.flags.option`.

`parse` is a name in `_PARSERS`, or null for another function; then the collector's module parses the text.
"""

_PARSERS = {
    parse.__name__: parse
    for parse in (str, boolean, count, duration, port, positive_duration, size)
}


def rows(options: type[Any]) -> list[Row]:
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


def options(name: str, rows: Iterable[Row]) -> type[Any]:
    """Return a dataclass with these flags; it imports the collector's module to check values that are not the defaults."""

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


def _field(name: str, row: Row) -> Any:
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

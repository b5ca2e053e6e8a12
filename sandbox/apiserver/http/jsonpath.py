"""JSONPath of printer columns: fields, indices, wildcards, and equality filters on one field."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

_STEP = re.compile(
    r"\.(?P<field>(?:\\.|[^.\[\]\\])+)"
    r"|\[(?P<index>-?\d+)\]"
    r"|(?:\.|\[)(?P<all>\*)\]?"
    r"|\[['\"](?P<quoted>[^'\"]+)['\"]\]"
    r"|\[\?\(\s*@\.(?P<key>[\w.]+)\s*==\s*['\"]?(?P<value>[^'\")]*)['\"]?\s*\)\]"
)


class Step(NamedTuple):
    """One step of a path. The kind determines which fields are set."""

    kind: str
    text: str
    value: str = ""


@lru_cache(maxsize=256)
def parse(path: str) -> tuple[Step, ...]:
    """Return the steps of a path. Raises ValueError if it is not supported."""
    steps, position = [], 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise ValueError(f"unsupported JSONPath: {path!r}")
        position = match.end()
        steps.append(_step(match))
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    parts = match.groupdict()
    if parts["all"] or parts["field"] == "*":
        return Step("all", "*")
    if parts["index"]:
        return Step("index", parts["index"])
    if parts["key"]:
        return Step("filter", parts["key"], parts["value"])
    return Step("field", re.sub(r"\\(.)", r"\1", parts["quoted"] or parts["field"]))


def find(value: Any, path: str) -> list[Any]:
    """Return all values at a path."""
    values = [value]
    for step in parse(path):
        values = [inner for item in values for inner in _take(item, step)]
    return values


def _take(item: Any, step: Step) -> Iterator[Any]:
    match step.kind, item:
        case "field", dict() if step.text in item:
            yield item[step.text]
        case "index", list() if -len(item) <= int(step.text) < len(item):
            yield item[int(step.text)]
        case "all", list():
            yield from item
        case "all", dict():
            yield from item.values()
        case "filter", list():
            for inner in item:
                have = find(inner, f".{step.text}")
                if have and _text(have[0]) == step.value.strip():
                    yield inner
        case _:
            return


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

"""Parses and writes the series of a recorded sample, `load1{node="a"}`, in the text format and in OpenMetrics.

The one grammar for what is recorded, which may have more than the agent exports: quoted names, unknown escapes. What the agent
exports again is parsed by `collectors.textfile`, strictly: a file there is valid or not.
"""

import re
from collections.abc import Iterable, Iterator

from plimsoll.text import shown

_BLANK = r"[ \t]*+"
_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*+"
_STRING = r'"((?:[^"\\]|\\.)*+)"'

SERIES = (
    rf"{_BLANK}(?:(?P<name>{_NAME})|(?=\{{)){_BLANK}(?:\{{(?P<labels>(?:[^\"}}]|{_STRING})*+)\}})?"
)
"""The pattern of a series, for patterns of whole samples; its groups `name` and `labels` are arguments of `named`."""

_SERIES = re.compile(SERIES + _BLANK)
_PAIR = re.compile(
    rf'{_BLANK}(?P<name>[a-zA-Z_][a-zA-Z0-9_]*+|"(?:[^"\\]|\\.)*+"){_BLANK}'
    rf"(?:={_BLANK}{_STRING})?{_BLANK}(?:,|$)"
)
_METRIC = "__name__"
_ESCAPE = re.compile(r'\\(["\\n])')
"""Other backslashes are part of the text, as Prometheus reads them."""

NODE = "node"
"""The label with the node's name."""
ABSENT, METRIC = "plimsoll_metric_absent", "metric"
"""The series that says that a node never had a metric since its agent started, and its label with the metric's name."""
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def parse(text: str) -> tuple[str, dict[str, str]]:
    """Return the name and the labels of a series. Raises ValueError."""
    match = _SERIES.fullmatch(text)
    if match is None:
        raise ValueError('not a series (write it like load1{node="a"})')
    return named(match["name"], match["labels"])


def named(name: str | None, labels: str | None) -> tuple[str, dict[str, str]]:
    """Return name and labels from the parts of a series; a quoted name is among the labels. Raises ValueError."""
    found = dict(_pairs(labels or ""))
    quoted = found.pop(_METRIC, "")
    if not (name or quoted):
        raise ValueError(f"a sample without a name: {shown('{' + (labels or '') + '}')}")
    return name or quoted, found


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield names and values; a quoted name without a value is the metric's."""
    text, place = text.rstrip(" \t"), 0
    while place < len(text):
        match = _PAIR.match(text, place)
        quoted = match is not None and match["name"].startswith('"')
        if match is None or (match[2] is None and not quoted):
            raise ValueError(f"not labels: {shown(text)}")
        name = _unescaped(match["name"][1:-1]) if quoted else match["name"]
        yield (_METRIC, name) if match[2] is None else (name, _unescaped(match[2]))
        place = match.end()


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], text)


def host(instance: str) -> str:
    """Return the host of a label `instance`: of `host:port`, `[address]:port`, or without a port, as relabeling may leave it."""
    name, _, port = instance.rpartition(":")
    bare_address = ":" in name and not name.startswith("[")  # IPv6
    if not name or not port.isdigit() or bare_address:
        name = instance
    return name.removeprefix("[").removesuffix("]")


def of_node(name: str, node: str, labels: Iterable[tuple[str, str]] = ()) -> str:
    """Return the text of a node's series. A label `node` of the series becomes `exported_node`, as in a scrape."""
    more = "".join(
        f',{"exported_node" if key == NODE else key}="{value.translate(_ESCAPES)}"'
        for key, value in labels
    )
    return f'{name}{{{NODE}="{node.translate(_ESCAPES)}"{more}}}'

"""Values as `promtool query instant` prints them: `node_load1{} => 1.5 @[1700000000]`, a line for each series."""

from collections.abc import Iterable

from agent.rules.promql.labels import NAME, Labels
from agent.rules.promql.labels import value as value_of
from agent.rules.promql.syntax.float_format import positional
from agent.rules.promql.values import Value

_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def lines(value: Value, unix: int) -> list[str]:
    """A line for each sample, sorted by name and labels; `unix` is its time in milliseconds since 1970."""
    stamp = f"@[{positional(unix / 1000)}]"
    if isinstance(value, str):
        return [value]
    if isinstance(value, float | int):
        return [f"scalar: {positional(value)} {stamp}"]
    ordered = sorted(value, key=lambda sample: (value_of(sample[0], NAME), sample[0]))
    return [f"{series(labels)} => {positional(found)} {stamp}" for labels, found in ordered]


def series(labels: Labels) -> str:
    """A label set as one would write it in an expression: `up{job="node"}`; `{}` of an empty one."""
    pairs = [f"{name}={quoted(text)}" for name, text in labels if name != NAME]
    metric = value_of(labels, NAME)
    return f"{metric}{{{', '.join(pairs)}}}" if pairs or not metric else metric


def quoted(text: str) -> str:
    """A string as Go's %q writes it: nothing in it drives a terminal."""
    return f'"{"".join(_quoted(text))}"'


def _quoted(text: str) -> Iterable[str]:
    for character in text:
        if (escape := _ESCAPES.get(character)) is not None:
            yield escape
        elif character.isprintable():
            yield character
        elif (code := ord(character)) < 0x80:
            yield f"\\x{code:02x}"
        else:
            yield f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

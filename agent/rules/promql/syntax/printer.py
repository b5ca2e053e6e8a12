"""Prints values as `promtool query instant` does: `node_load1{} => 1.5 @[1700000000]`, one line per series."""

import math
from collections.abc import Iterable

from agent.rules.promql.labels import NAME, Labels
from agent.rules.promql.labels import value as value_of
from agent.rules.promql.values import Value
from plimsoll.floats import not_finite

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
    """Return a line for each sample, sorted by name and labels; `unix`: its time in Unix ms."""
    stamp = f"@[{positional(unix / 1000)}]"
    if isinstance(value, str):
        return [value]
    if isinstance(value, float | int):
        return [f"scalar: {positional(value)} {stamp}"]
    ordered = sorted(value, key=lambda sample: (value_of(sample[0], NAME), sample[0]))
    return [f"{series(labels)} => {positional(number)} {stamp}" for labels, number in ordered]


def series(labels: Labels) -> str:
    """Return a label set in PromQL syntax: `up{job="node"}`; `{}` if empty."""
    pairs = [f"{name}={quoted(text)}" for name, text in labels if name != NAME]
    metric = value_of(labels, NAME)
    return f"{metric}{{{', '.join(pairs)}}}" if pairs or not metric else metric


def quoted(text: str) -> str:
    """Return a string quoted like Go's %q, so that terminal control characters are escaped."""
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


def positional(number: float) -> str:
    """Return the shortest digits that round-trip, without an exponent; NaN, +Inf, -Inf."""
    if not math.isfinite(number):
        return not_finite(number)
    mantissa, _, exponent = repr(float(number)).partition("e")
    if not exponent:
        return mantissa.removesuffix(".0")
    sign = "-" if number < 0 else ""
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    digits = whole + fraction
    point = len(whole) + int(exponent)
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    # Large numbers have an exponent only if all their digits precede the point.
    return sign + digits.ljust(point, "0")

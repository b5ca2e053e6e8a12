"""Bounds the length of values in log lines.

Many values come from others: names in requests, error messages of servers. A line must stay readable, and short enough that
no container runtime splits it.
"""

import json
import math
from collections.abc import Iterable

LONGEST = 1_000
"""Maximum characters of a value after escaping. Every valid Kubernetes name is shorter."""
LONGEST_MESSAGE = 2_000
LONGEST_TRACE = 8_000
"""Of a traceback the beginning and, four times as long, the end are kept, which has the error."""

Plain = str | int | float | bool | None


def plain(value: object, most: int = LONGEST) -> Plain:
    """Return a value in a type that every renderer writes: numbers, None and booleans unchanged, else text of `most` characters."""
    match value:
        case None | bool():
            return value
        case int() if value.bit_length() <= 64:
            return value
        case int():
            return shortened(hex(value), most)  # Python refuses decimals of huge integers
        case float() if math.isfinite(value):
            return value
        case _:
            return shortened(_sound(str(value)), most)


def shortened(text: str, most: int, *, end: int = 0) -> str:
    """Return text of at most `most` characters with a note of what was omitted; `end` of them are kept from its end."""
    if len(text) <= most and _cost(text) <= most:
        return text
    first = text[: _fitting(text[:most], most - end)]
    last = text[len(text) - _fitting(reversed(text[-most:]), end) :]
    return f"{first} ... {len(text) - len(first) - len(last)} more characters ... {last}"


def _cost(text: str) -> int:
    """Return the number of characters of a text in JSON, whose escapes are at least as long as logfmt's (except DEL)."""
    return len(json.dumps(text)) - 2 + 5 * text.count("\x7f")


def _fitting(characters: Iterable[str], most: int) -> int:
    """Return how many leading characters fit into `most` escaped ones."""
    taken = 0
    for count, character in enumerate(characters):
        taken += _cost(character)
        if taken > most:
            return count
    return most


def trace(text: str) -> str:
    """Return a traceback of bounded length."""
    return shortened(_sound(text), LONGEST_TRACE, end=LONGEST_TRACE * 4 // 5)


def _sound(text: str) -> str:
    """Replace surrogates, which occur in file names and are invalid in strict JSON."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()

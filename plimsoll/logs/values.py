"""How much of a value gets into a log line: names and sentences whole, what somebody made a megabyte long no further than that.

Much of what is logged was written by others: names in requests, what a server says when it refuses. A line stays one that
a person can read and that no container runtime splits into several.
"""

import json
import math
from collections.abc import Iterable

LONGEST = 1_000
"""Characters of a value, as they are written: escaped ones are several. Every name that Kubernetes knows is shorter."""
LONGEST_MESSAGE = 2_000
LONGEST_TRACE = 8_000
"""Of a traceback its beginning and, four times as much, its end are kept: what failed stands there."""

Plain = str | int | float | bool | None


def plain(value: object, most: int = LONGEST) -> Plain:
    """A value as every renderer can write it: numbers, None and booleans as they are, all else as text of `most` characters."""
    match value:
        case None | bool():
            return value
        case int() if value.bit_length() <= 64:
            return value
        case int():
            return shortened(
                hex(value), most
            )  # in decimals, Python itself refuses from some size on
        case float() if math.isfinite(value):
            return value
        case _:
            return shortened(_sound(str(value)), most)


def shortened(text: str, most: int, *, end: int = 0) -> str:
    """A text that takes no more than `most` characters, and a note of what was left out; `end` of them are of its end."""
    if len(text) <= most and _cost(text) <= most:
        return text
    first = text[: _fitting(text[:most], most - end)]
    last = text[len(text) - _fitting(reversed(text[-most:]), end) :]
    return f"{first} ... {len(text) - len(first) - len(last)} more characters ... {last}"


def _cost(text: str) -> int:
    """How many characters a text takes in JSON, which escapes no less than logfmt; but for one that we see to."""
    return len(json.dumps(text)) - 2 + 5 * text.count("\x7f")


def _fitting(characters: Iterable[str], most: int) -> int:
    """How many of these take no more than so much together."""
    taken = 0
    for count, character in enumerate(characters):
        taken += _cost(character)
        if taken > most:
            return count
    return most


def trace(text: str) -> str:
    """A traceback of bounded length."""
    return shortened(_sound(text), LONGEST_TRACE, end=LONGEST_TRACE * 4 // 5)


def _sound(text: str) -> str:
    """Without halves of characters, which file names can bring in and strict readers of JSON refuse."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()

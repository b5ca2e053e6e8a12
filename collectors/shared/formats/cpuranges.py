"""Parses CPU numbers in flags: `0,2-4,6-12:3` is 0, 2, 3, 4, 6, 9 and 12."""

import re
from collections.abc import Sequence

_PART = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4})(?::([1-9][0-9]{0,3}))?)?", re.ASCII)


def parse_ranges(text: str) -> Sequence[int]:
    """Return the numbers in ascending order; empty for an empty text. Raises ValueError for other text."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        if (match := _PART.fullmatch(part)) is None:
            raise ValueError(f"not a list of CPUs: {text[:40]!r} (write it like 0,2-4 or 1-10:5)")
        first, last, step = match.groups()
        found.update(range(int(first), int(last or first) + 1, int(step or 1)))
    return sorted(found)


def cpu_ranges(text: str) -> str:
    """Return a text after checking it, for flags."""
    parse_ranges(text)
    return text

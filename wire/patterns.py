"""Patterns of metric names, in which `*` stands for any characters.

Matching takes time linear in the length of the name: agents match patterns of any evaluator.
"""

from collections.abc import Iterable

EVERY = "*"
MOST = 100
"""Patterns in one subscription."""


class Patterns:
    """Some patterns; a name matches if it matches one of them."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._patterns = [pattern.split(EVERY) for pattern in patterns]

    def matches(self, name: str) -> bool:
        """Return whether a name matches."""
        return any(_matches(parts, name) for parts in self._patterns)


def _matches(parts: list[str], name: str) -> bool:
    """Return whether a name consists of these parts with any characters between them."""
    first, *others = parts
    if not others:
        return name == first
    *middle, last = others
    if not name.startswith(first):
        return False
    at = len(first)
    for part in middle:
        at = name.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return len(name) - at >= len(last) and name.endswith(last)

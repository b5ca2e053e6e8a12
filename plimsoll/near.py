"""Finds the names that a misspelt name probably meant."""

import difflib
import itertools
from collections.abc import Iterable

_SHARED = 0.5
"""Share of letter pairs that two names must have in common before they are compared letter by letter, which is slow."""
_COMPARED = 8
"""Names that are compared letter by letter."""
_SIMILAR = 0.75
"""difflib's ratio from which names count as similar."""


class NearNames:
    """Names to suggest. Comparing one name with a thousand takes about a millisecond."""

    def __init__(self, names: Iterable[str]) -> None:
        self._pairs = {name: _pairs(name) for name in names}

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def find(self, name: str, most: int = 3) -> list[str]:
        """Return up to `most` names similar to this one, the most similar first; case is ignored."""
        own = _pairs(name)
        shared = sorted(
            (-share, other)
            for other, pairs in self._pairs.items()
            if other != name
            and (share := 2 * len(own & pairs) / (len(own) + len(pairs) or 1)) >= _SHARED
        )
        rated = ((_ratio(name, other), other) for _, other in shared[:_COMPARED])
        near = sorted((-ratio, other) for ratio, other in rated if ratio >= _SIMILAR)
        return [other for _, other in near[:most]]


def _pairs(name: str) -> frozenset[str]:
    lower = name.lower()
    return frozenset(map("".join, itertools.pairwise(lower)))


def _ratio(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one.lower(), other.lower(), autojunk=False).ratio()

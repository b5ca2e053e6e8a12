"""How many ways there are to match a pattern, at most: what Python's backtracking may have to go through before it says no."""

import math
import re
from collections.abc import Iterable
from typing import Any

TEXT = 64
"""Characters of a label value for which is counted; those of a node's labels are seldom longer."""
MOST = 24.0
"""Binary logarithm of the most ways that a pattern may have: a second, at worst."""

_NARROW = 8  # a repeat of more lengths than that has as many ways as an unbounded one


def is_dear(pattern: str) -> bool:
    """Whether a pattern in Python's words, a valid one, may take too long on a text of usual length."""
    constant, free = _ways(re._parser.parse(pattern))  # type: ignore[attr-defined]  # noqa: SLF001 (the one place that knows what `re` tries)
    return constant + math.log2(math.comb(TEXT + free, free)) > MOST


def _ways(pieces: Iterable[tuple[Any, Any]]) -> tuple[float, int]:
    """The ways that do not depend on the text's length, as a logarithm, and the number of repeats that share that length."""
    constant, free = 0.0, 0
    for operation, found in pieces:
        more, length = _ways_of(str(operation), found)
        constant, free = constant + more, free + length
    return constant, free


def _ways_of(operation: str, found: Any) -> tuple[float, int]:
    match operation:
        case "SUBPATTERN":
            return _ways(found[-1])
        case "BRANCH":
            branches = [_ways(branch) for branch in found[1]]
            return max(more for more, _ in branches) + math.log2(len(branches)), max(
                length for _, length in branches
            )
        case "MAX_REPEAT" | "MIN_REPEAT":
            least, most, repeated = found
            more, length = _ways(repeated)
            lengths = int(most) - int(least) + 1
            if lengths > _NARROW:  # whatever varies within would have been refused
                return more, length + 1
            return more * int(most) + math.log2(lengths), length * int(most)
        case _:
            return 0.0, 0

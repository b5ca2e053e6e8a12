"""Prometheus' regular expressions: RE2 syntax, anchored at both ends, `.` matches newlines, matched in linear time (`plimsoll.re2`)."""

from functools import lru_cache

from agent.rules.promql.errors import ExpressionError
from plimsoll import re2
from plimsoll.re2 import Match as Match
from plimsoll.re2 import Pattern as Pattern

LONGEST = 2000
"""Maximum length of a pattern in characters."""
PROGRAM_BYTES = 256 << 10
"""Memory of a compiled pattern including cached states: about 2,700 instructions."""


@lru_cache(128)
def compiled(pattern: str) -> Pattern:
    """Compile a pattern for `fullmatch`.

    Raises ExpressionError if it is invalid or too large.
    """
    try:
        return re2.compiled(
            pattern, whole=True, newlines=True, longest=LONGEST, most_bytes=PROGRAM_BYTES
        )
    except re2.PatternError as error:
        raise ExpressionError(
            str(error), "unsupported" if error.unsupported else "parse"
        ) from error

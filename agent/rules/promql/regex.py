"""Prometheus' regular expressions: RE2 syntax, anchored at both ends, matched in linear time (`plimsoll.re2`)."""

import re
from functools import lru_cache

from agent.rules.promql.errors import ExpressionError, unsupported
from plimsoll import re2
from plimsoll.re2 import Match as Match
from plimsoll.re2 import Pattern as Pattern
from plimsoll.text import shown

LONGEST = 2000
"""Maximum length of a pattern in characters."""
PROGRAM_BYTES = 256 << 10
"""Memory of a compiled pattern including cached states: about 2,700 instructions."""

# Syntax that RE2 accepts and Go's regular expressions in Prometheus 2.42 do not; quoted text and escapes are skipped.
_TOKEN = re.compile(r"\\Q.*?(?:\\E|\Z)|(?P<newer>\(\?<)|\\.", re.DOTALL)


@lru_cache(128)
def compiled(pattern: str) -> Pattern:
    """Compile a pattern for `fullmatch`.

    Raises ExpressionError if it is invalid, too large, or uses syntax that Prometheus 2.42 lacks.
    """
    if any(token["newer"] for token in _TOKEN.finditer(pattern[:LONGEST])):
        raise unsupported(f"(?< in the regular expression {shown(pattern)}")
    try:
        return re2.compiled(pattern, whole=True, longest=LONGEST, most_bytes=PROGRAM_BYTES)
    except re2.PatternError as error:
        raise ExpressionError(
            str(error), "unsupported" if error.unsupported else "parse"
        ) from error

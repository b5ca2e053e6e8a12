"""Prometheus' regular expressions: RE2 syntax, anchored at both ends, matched in linear time.

google-re2 does the work, so a pattern means the same as in Prometheus. It is imported with the first pattern that needs it
(not plain alternatives): the library takes 3 MB, which an agent without such rules saves.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from agent.rules.promql.errors import ExpressionError, unsupported
from plimsoll.text import shown

LONGEST = 2000
"""Maximum length of a pattern in characters."""
PROGRAM_BYTES = 256 << 10
"""Memory of a compiled pattern including cached states: about 2,700 instructions."""
_COMPILED = 128  # cached patterns, of up to PROGRAM_BYTES each

# Alternatives of plain text, or one wildcard: Python's engine gives the same answer as RE2, in linear time.
_PLAIN = re.compile(r"[^\\.+*?()|\[\]{}^$]*(?:\|[^\\.+*?()|\[\]{}^$]*)*|\(?\.[*+]\)?")
# Syntax that this RE2 accepts and Go's in Prometheus 2.42 does not, and group names; quoted text and escapes are
# skipped.
_TOKEN = re.compile(r"\\Q.*?(?:\\E|\Z)|(?P<newer>\\C|\(\?<)|\(\?P<(?P<name>\w+)>|\\.", re.DOTALL)


_SURROGATE = re.compile("[\ud800-\udfff]")


class Match(Protocol):
    """The match of a pattern."""

    def __getitem__(self, group: int | str, /) -> str | None:
        """Return a group's text; None if it did not participate. Raises IndexError for an unknown group."""
        ...


class _Program(Protocol):
    def fullmatch(self, text: str, /) -> Match | None: ...


@dataclass(frozen=True, slots=True)
class Pattern:
    """A valid regular expression."""

    text: str

    def fullmatch(self, text: str) -> Match | None:
        """Match the whole text; None if it does not match."""
        program = _program(self.text)
        try:
            return program.fullmatch(text)
        except UnicodeEncodeError:  # RE2 reads UTF-8; Go matches a byte that is not UTF-8 as U+FFFD
            return program.fullmatch(_SURROGATE.sub("\ufffd", text))


def compiled(pattern: str) -> Pattern:
    """Compile a pattern. Raises ExpressionError if it is invalid, too large, or uses syntax that Prometheus 2.42 lacks."""
    if len(pattern) > LONGEST:
        raise _unsupported(pattern, f"more than {LONGEST} characters")
    if _SURROGATE.search(pattern):
        raise _invalid(pattern, "invalid UTF-8")
    names = []
    for token in _TOKEN.finditer(pattern):
        if token["newer"]:
            raise _unsupported(pattern, token["newer"])
        names += [token["name"]] if token["name"] else []
    if len(set(names)) < len(names):  # `$name` would be ambiguous
        raise _unsupported(pattern, "a name for two groups")
    _program(pattern)
    return Pattern(pattern)


@lru_cache(_COMPILED)
def _program(pattern: str) -> _Program:
    if _PLAIN.fullmatch(pattern):
        try:
            return re.compile(pattern)
        except re.error as error:  # `(.*`, or `.*)`
            raise _invalid(pattern, str(error)) from error
    import re2

    options = re2.Options()
    options.max_mem = PROGRAM_BYTES
    options.log_errors = False
    try:
        re2.compile(pattern, options)  # `a)(b` is valid only between anchors
        program: _Program = re2.compile(f"^(?:{pattern})$", options)
    except re2.error as error:
        reason = str(error.args[0].decode("utf-8", "replace"))
        if reason.startswith("pattern too large"):
            raise _unsupported(
                pattern, f"more than {PROGRAM_BYTES >> 10} KiB when compiled"
            ) from error
        raise _invalid(pattern, reason.partition(": ")[0]) from error
    finally:
        re2.purge()  # the module's cache would hold programs beyond our bound
    return program


def _invalid(pattern: str, reason: str) -> ExpressionError:
    return ExpressionError(f"invalid regular expression {shown(pattern)}: {reason}", "parse")


def _unsupported(pattern: str, what: str) -> ExpressionError:
    return unsupported(f"{what} in the regular expression {shown(pattern)}")

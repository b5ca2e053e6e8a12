"""Prometheus' regular expressions: RE2's syntax, matched against a whole text in time linear in its length.

RE2 itself does the work (google-re2), so a pattern means what it means to Prometheus. It is loaded with the first pattern that is
more than alternatives of plain text: the library takes 3 MB, which an agent without such rules does not spend.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from agent.rules.promql.errors import ExpressionError, unsupported
from plimsoll.text import shown

LONGEST = 2000
"""Characters of a pattern."""
PROGRAM_BYTES = 256 << 10
"""Memory of a compiled pattern, with the states that matching adds to it: about 2,700 instructions."""
_COMPILED = 128  # patterns; PROGRAM_BYTES each, at most

# Alternatives of plain text, or a lone wildcard: Python's engine gives RE2's answer, and in linear time.
_PLAIN = re.compile(r"[^\\.+*?()|\[\]{}^$]*(?:\|[^\\.+*?()|\[\]{}^$]*)*|\(?\.[*+]\)?")
# What this RE2 takes and the Go of Prometheus 2.42 does not, and names of groups; quoted text and escapes are stepped over.
_TOKEN = re.compile(r"\\Q.*?(?:\\E|\Z)|(?P<newer>\\C|\(\?<)|\(\?P<(?P<name>\w+)>|\\.", re.DOTALL)


_SURROGATE = re.compile("[\ud800-\udfff]")


class Match(Protocol):
    """What a pattern matched."""

    def __getitem__(self, group: int | str, /) -> str | None:
        """A group's text; None if it took no part. IndexError if the pattern has no such group."""
        ...


class _Program(Protocol):
    def fullmatch(self, text: str, /) -> Match | None: ...


@dataclass(frozen=True, slots=True)
class Pattern:
    """A valid regular expression."""

    text: str

    def fullmatch(self, text: str) -> Match | None:
        """The match of the whole text; None if there is none."""
        program = _program(self.text)
        try:
            return program.fullmatch(text)
        except UnicodeEncodeError:  # RE2 reads UTF-8; Go matches a byte that is not UTF-8 as U+FFFD
            return program.fullmatch(_SURROGATE.sub("\ufffd", text))


def compiled(pattern: str) -> Pattern:
    """The pattern of a text. ExpressionError if it is invalid, too large, or of a syntax that Prometheus 2.42 lacks."""
    if len(pattern) > LONGEST:
        raise _unsupported(pattern, f"more than {LONGEST} characters")
    if _SURROGATE.search(pattern):
        raise _invalid(pattern, "invalid UTF-8")
    names = []
    for token in _TOKEN.finditer(pattern):
        if token["newer"]:
            raise _unsupported(pattern, token["newer"])
        names += [token["name"]] if token["name"] else []
    if len(set(names)) < len(names):  # which of them `$name` stands for depends on the match
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
        re2.purge()  # its cache would hold programs beyond the bound here
    return program


def _invalid(pattern: str, reason: str) -> ExpressionError:
    return ExpressionError(f"invalid regular expression {shown(pattern)}: {reason}", "parse")


def _unsupported(pattern: str, what: str) -> ExpressionError:
    return unsupported(f"{what} in the regular expression {shown(pattern)}")

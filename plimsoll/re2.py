"""Go's regular expressions (RE2 syntax: https://github.com/google/re2/wiki/Syntax), matched in linear time by google-re2.

For patterns that other programs in Go read too: flags of node_exporter, rules of Prometheus and of node-problem-detector.

    pattern = re2.compiled(r"^ifb[[:digit:]]+$")    # PatternError, a ValueError, says what is wrong with it
    pattern.search("ifb0")                          # a Match, or None; the pattern is not anchored
    pattern.fullmatch("ifb0")                       # as if written between ^(?: and )$
    pattern.search(line)["name"]                    # a group, by number or by name

Text may have surrogates that stand for bytes that are not UTF-8 (`surrogateescape`); they match as U+FFFD, as in Go.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import re2

from plimsoll.text import shown

LONGEST = 8192
"""Maximum length of a pattern in characters."""
PROGRAM_BYTES = 1 << 20
"""Memory of a compiled pattern including cached states: about 10,000 instructions."""
_COMPILED = 256
"""Compiled patterns that are kept."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_GROUP = re.compile(r"\\Q.*?(?:\\E|\Z)|(?P<byte>\\C)|\(\?P?<(?P<name>\w+)>|\\.", re.DOTALL)


class PatternError(ValueError):
    """A pattern that cannot be used; the message is a sentence. `unsupported`: it may be valid in Go."""

    def __init__(self, message: str, *, unsupported: bool = False) -> None:
        super().__init__(message)
        self.unsupported = unsupported


class Match(Protocol):
    """The match of a pattern."""

    def __getitem__(self, group: int | str, /) -> str | None:
        """Return a group's text; None if it did not participate. Raises IndexError for an unknown group."""
        ...


class _Program(Protocol):
    def search(self, text: str, /) -> Match | None: ...

    def fullmatch(self, text: str, /) -> Match | None: ...


@dataclass(frozen=True, slots=True)
class Pattern:
    """A valid regular expression. `most_bytes`: memory of its program; `newlines`: whether `.` matches them."""

    text: str
    most_bytes: int = PROGRAM_BYTES
    newlines: bool = False

    def search(self, text: str) -> Match | None:
        """Return the first match anywhere in a text; None if there is none."""
        program = _program(self.text, self.most_bytes, False, self.newlines)
        try:
            return program.search(text)
        except UnicodeEncodeError:
            return program.search(_SURROGATE.sub("\ufffd", text))

    def fullmatch(self, text: str) -> Match | None:
        """Match the whole text; None if it does not match."""
        program = _program(self.text, self.most_bytes, True, self.newlines)
        try:
            return program.fullmatch(text)
        except UnicodeEncodeError:
            return program.fullmatch(_SURROGATE.sub("\ufffd", text))


def compiled(
    pattern: str,
    *,
    whole: bool = False,
    newlines: bool = False,
    longest: int = LONGEST,
    most_bytes: int = PROGRAM_BYTES,
) -> Pattern:
    r"""Compile a pattern of at most `longest` characters, and `most_bytes` when compiled.

    `whole`: it is for `fullmatch`, not for `search`. `newlines`: `.` matches them. Raises PatternError for a pattern that Go rejects, for an oversized one,
    and for `\C` and two groups of one name.
    """
    if len(pattern) > longest:
        raise _unsupported(pattern, f"more than {longest} characters")
    if _SURROGATE.search(pattern):
        raise _invalid(pattern, "invalid UTF-8")
    names: set[str] = set()
    for found in _GROUP.finditer(pattern):
        if found["byte"]:
            raise _unsupported(pattern, found["byte"])
        if (name := found["name"]) in names:
            raise _unsupported(pattern, "a name for two groups")
        names |= {name} if name else set()
    _program(pattern, most_bytes, whole, newlines)
    return Pattern(pattern, most_bytes, newlines)


@lru_cache(_COMPILED)
def _program(pattern: str, most_bytes: int, whole: bool, newlines: bool) -> _Program:
    """Compile a pattern. `whole`: for `fullmatch`, between anchors as Prometheus does. Raises PatternError."""
    options = re2.Options()
    options.max_mem = most_bytes
    options.log_errors = False
    options.dot_nl = newlines
    try:
        program: _Program = re2.compile(pattern, options)  # `a)(b` is valid only between anchors
        return re2.compile(f"^(?:{pattern})$", options) if whole else program
    except re2.error as error:
        reason = str(error.args[0].decode("utf-8", "replace"))
        if reason.startswith("pattern too large"):
            raise _unsupported(
                pattern, f"more than {most_bytes >> 10} KiB when compiled"
            ) from error
        raise _invalid(pattern, reason.partition(": ")[0]) from error
    finally:
        re2.purge()  # the module's cache would hold programs beyond our bound


def _invalid(pattern: str, reason: str) -> PatternError:
    return PatternError(f"invalid regular expression {shown(pattern)}: {reason}")


def _unsupported(pattern: str, what: str) -> PatternError:
    return PatternError(
        f"{what} in the regular expression {shown(pattern)} is not supported", unsupported=True
    )

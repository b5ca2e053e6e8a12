"""Go's regular expressions (RE2 syntax: https://github.com/google/re2/wiki/Syntax), matched in linear time.

For patterns that other programs in Go read too: flags of node_exporter, rules of Prometheus and of node-problem-detector.

    pattern = re2.compiled(r"^ifb[[:digit:]]+$")    # PatternError, a ValueError, says what is wrong with it
    pattern.search("ifb0")                          # a Match, or None; the pattern is not anchored
    pattern.fullmatch("ifb0")                       # as if written between ^(?: and )$
    pattern.search(line)["name"]                    # a group, by number or by name

google-re2 does the work. It is imported with the first pattern that needs it, because it takes 3 MB: for patterns that mean
the same in Python and that Python matches without long backtracking, Python's engine is used. Text may have surrogates that
stand for bytes that are not UTF-8 (`surrogateescape`); they match as U+FFFD, as in Go.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from plimsoll.text import shown

LONGEST = 8192
"""Maximum length of a pattern in characters."""
PROGRAM_BYTES = 1 << 20
"""Memory of a compiled pattern including cached states: about 10,000 instructions."""
_COMPILED = 256
"""Compiled patterns that are kept."""
_SHORT = 256
"""Longest text for Python's engine."""
_MOST_REPEATS = 3
"""Repeats in sequence for Python's engine, and one for a search that may begin anywhere: backtracking takes time by as many
powers of the length of the text."""
_DEEPEST = 32
"""Nested groups for Python's engine, whose parser recurses."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_GROUP = re.compile(r"\\Q.*?(?:\\E|\Z)|(?P<byte>\\C)|\(\?P?<(?P<name>\w+)>|\\.", re.DOTALL)
# Tokens that mean the same in both engines; `$` in Python also matches before a newline at the end, so it is written \Z.
_CLASS = r"[a-zA-Z0-9_.:/@, ](?:-[a-zA-Z0-9])?"
_TOKEN = re.compile(
    r"(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<alternative>\|)|(?P<begin>\^)|(?P<end>\$)"
    r"|(?P<repeat>[*+]|\{[0-9]{1,2}(?:,[0-9]{1,2})?\})|(?P<optional>\?)"
    rf"|(?P<atom>\\[.+*?()|\[\]{{}}^$/-]|\\[dw]|\[\^?(?:{_CLASS})+-?\]|\.|[a-zA-Z0-9_/,:;<>=!@#%&~'\" -])"
)
_ANY = frozenset({"open", "close", "alternative", "begin", "end", "atom"})
_FOLLOWS = {"atom": _ANY | {"repeat", "optional"}, "close": _ANY | {"optional"}}
"""The kinds of tokens that may follow one."""


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
    """A valid regular expression. `most_bytes`: memory of its program."""

    text: str
    most_bytes: int = PROGRAM_BYTES

    def search(self, text: str) -> Match | None:
        """Return the first match anywhere in a text; None if there is none."""
        program = _program(self.text, self.most_bytes, False, len(text) <= _SHORT)
        try:
            return program.search(text)
        except UnicodeEncodeError:
            return program.search(_SURROGATE.sub("\ufffd", text))

    def fullmatch(self, text: str) -> Match | None:
        """Match the whole text; None if it does not match."""
        program = _program(self.text, self.most_bytes, True, len(text) <= _SHORT)
        try:
            return program.fullmatch(text)
        except UnicodeEncodeError:
            return program.fullmatch(_SURROGATE.sub("\ufffd", text))


def compiled(
    pattern: str, *, whole: bool = False, longest: int = LONGEST, most_bytes: int = PROGRAM_BYTES
) -> Pattern:
    r"""Compile a pattern of at most `longest` characters, and `most_bytes` when compiled.

    `whole`: it is for `fullmatch`, not for `search`. Raises PatternError for a pattern that Go rejects, for an oversized one,
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
    _program(pattern, most_bytes, whole, True)
    return Pattern(pattern, most_bytes)


@lru_cache(_COMPILED)
def _program(pattern: str, most_bytes: int, whole: bool, short: bool) -> _Program:
    """Compile a pattern. `whole`: for `fullmatch`; `short`: for short texts only. Raises PatternError."""
    if short and (same := in_python(pattern, whole=whole)) is not None:
        return re.compile(same, re.ASCII)
    try:
        import re2
    except ModuleNotFoundError as error:
        raise PatternError(
            f"the regular expression {shown(pattern)} needs the package google-re2",
            unsupported=True,
        ) from error
    options = re2.Options()
    options.max_mem = most_bytes
    options.log_errors = False
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


@dataclass(slots=True)
class _Group:
    """Repeats in sequence: in the present alternative, and the most in those before."""

    own: int = 0
    before: int = 0

    @property
    def repeats(self) -> int:
        return max(self.own, self.before)


def in_python(pattern: str, *, whole: bool = False) -> str | None:
    """Return a pattern for Python's `re` (with `re.ASCII`) that matches short texts as RE2 does; None if there may be none.

    It must consist of characters, simple classes, groups, alternatives and few repeats of a character or class: repeated
    groups may take exponential time.
    """
    written: list[str] = []
    groups = [_Group()]
    before, position = "", 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None or not _may_follow(token, before) or len(groups) > _DEEPEST:
            return None
        position, kind = token.end(), token.lastgroup or ""
        if kind == "repeat":
            groups[-1].own += 1
        elif kind == "alternative":
            groups[-1] = _Group(0, groups[-1].repeats)
        elif kind == "open":
            groups.append(_Group())
        elif kind == "close" and len(groups) > 1:
            closed = groups.pop()
            groups[-1].own += closed.repeats
        elif kind == "close":
            return None
        written.append(r"\Z" if kind == "end" else token[0])
        before = kind
    anywhere = not (whole or pattern.startswith("^"))
    if len(groups) != 1 or groups[0].repeats + anywhere > _MOST_REPEATS:
        return None
    same = "".join(written)
    try:
        re.compile(same, re.ASCII)
    except re.error:  # a range such as z-a: RE2 says why it is invalid
        return None
    return same


def _may_follow(token: re.Match[str], before: str) -> bool:
    return token.lastgroup in _FOLLOWS.get(before, _ANY)


def _invalid(pattern: str, reason: str) -> PatternError:
    return PatternError(f"invalid regular expression {shown(pattern)}: {reason}")


def _unsupported(pattern: str, what: str) -> PatternError:
    return PatternError(
        f"{what} in the regular expression {shown(pattern)} is not supported", unsupported=True
    )

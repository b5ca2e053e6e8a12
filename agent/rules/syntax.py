"""From an expression's text to the parser's tree, but for what would harm the parser or what only newer releases take.

The parser is a recursive one, and a native one: too deep a nesting would end the process, not raise.
"""

import json
import math
import re

import promql_parser

from agent.rules.patterns import translated
from agent.rules.refusals import ExpressionError, Reason, unsupported
from plimsoll.sentences import shown

LONGEST = 20_000
"""Characters of an expression."""
MOST_PARTS = 500
"""Parentheses opened, and operators, of an expression."""

_LITERAL = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)|#[^\n]*""", re.DOTALL
)
_BRACES = re.compile(r"\{[^{}]*\}")
_PART = re.compile(r"[(+\-*/%^<>=!]|\b(?:and|or|unless|atan2)\b", re.IGNORECASE)
_BYTES = re.compile(r"\\(?:\\|x[89a-fA-F]|[23][0-7])")
_LARGE = re.compile(r"(?<![\w.:])(?:\d+\.?\d*|\.\d+)e\+?\d+", re.ASCII | re.IGNORECASE)
_QUOTED_NAME = re.compile(
    r"""\{(?:[^{}]*,)?\s*"|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()"]*\"""",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\[([^\]]*)\]")
_OFFSET = re.compile(r"\boffset\s*[-+]?\s*([\w.]+)", re.IGNORECASE)
_DURATION = re.compile(r"(?:[0-9]+(?:ms|[smhdwy]))+")
_NUMBER = re.compile(r"[0-9.]")
_BARE = re.compile(r"(?<![\w.:])[0-9]+(?:ms|[smhdwy])", re.IGNORECASE)

# What the parser says of trees that are PromQL by their grammar alone.
_TYPES = (
    "expected type",
    "comparisons between scalars",
    "set operator",
    "subquery is only allowed",
    "ranges only allowed",
    "only allowed on expressions of type",
    "must contain only scalar and instant vector",
    "bool modifier",
    "wrong number of arguments",
    "argument(s) in call",
    "vector matching only allowed",
    "no grouping allowed",
    "must not occur in ON and GROUP",
)
_PATTERN = re.compile(
    "illegal regex for (.*)", re.DOTALL
)  # the parser's dialect lacks a few things
_UNKNOWN = re.compile(r"unknown function with name '(\w*)'")
_OLDER = frozenset({"holt_winters"})  # functions of Prometheus that the parser does not know


def tree(text: str) -> promql_parser.Expr:
    """The tree of an expression; ExpressionError of what is none."""
    if len(text) > LONGEST:
        raise ExpressionError(f"more than {LONGEST} characters", "parse")
    plain = _LITERAL.sub(lambda literal: '""' if literal["text"] else "\n", text)
    unbraced = _BRACES.sub("", plain)
    if len(_PART.findall(unbraced)) > MOST_PARTS:
        raise ExpressionError(f"more than {MOST_PARTS} operators and parentheses", "parse")
    # These before it is parsed, as the parser breaks down over `@ 1e99` and `[1e99]`.
    if "@" in unbraced:
        raise unsupported("the @ modifier")
    _refuse_durations(unbraced)
    for number in _LARGE.findall(unbraced):
        if math.isinf(float(number)):
            raise ExpressionError(f"the number {shown(number)} is out of range", "parse")
    found = _parsed(_LITERAL.sub(_requoted, text))
    _refuse_bytes(text)
    if _QUOTED_NAME.search(plain):
        raise unsupported("a quoted name")
    if _BARE.search(_OFFSET.sub("", _RANGE.sub("", unbraced))):
        raise unsupported("a duration as a number")
    return found


def _parsed(text: str) -> promql_parser.Expr:
    try:
        return promql_parser.parse(text)
    except ValueError as error:
        raise _explained(str(error)) from error
    except BaseException as error:
        # A panic of the native parser is no Exception, and would end the process over a user's mistake.
        if type(error).__name__ != "PanicException":
            raise
        raise ExpressionError(f"the parser cannot read it: {error}", "parse") from error


def _requoted(literal: re.Match[str]) -> str:
    """A literal between double quotes: the parser takes backslashes between backquotes for escapes, Prometheus does not."""
    text = literal[0]
    return json.dumps(text[1:-1], ensure_ascii=False) if text.startswith("`") else text


def _refuse_bytes(text: str) -> None:
    """Go's strings are bytes, the parser's are characters: it reads `\\xff` as another text than Prometheus."""
    for literal in _LITERAL.finditer(text):
        quoted = literal["text"] or "`"
        if quoted[0] != "`" and any(escape != r"\\" for escape in _BYTES.findall(quoted)):
            raise unsupported(f"a byte that is no character, in {shown(quoted)},")


def _refuse_durations(plain: str) -> None:
    """Releases after 2.42 take any number of seconds for a duration, and so does the parser."""
    between = [piece.strip() for found in _RANGE.findall(plain) for piece in found.split(":")]
    for piece in between + _OFFSET.findall(plain):
        if _NUMBER.match(piece) and not _DURATION.fullmatch(piece):
            raise unsupported(f"the duration {shown(piece)}")


def _explained(text: str) -> ExpressionError:
    if pattern := _PATTERN.match(text):
        translated(pattern[1])  # raises where it is none indeed
        return unsupported(f"the regular expression {pattern[1]!r}")
    unknown = _UNKNOWN.search(text)
    if unknown is not None and unknown[1] in _OLDER:
        return unsupported(f"the function {unknown[1]}()")
    reason: Reason = "type" if any(sign in text for sign in _TYPES) else "parse"
    return ExpressionError(text, reason)

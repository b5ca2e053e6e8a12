"""Parses an expression's text, after rejecting what would crash the native parser or is experimental; converts its selectors.

The parser is native and recursive: too deep a nesting would end the process instead of raising.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import promql_parser

from agent.rules.promql.errors import ExpressionError, Reason, out_of_range, unsupported
from agent.rules.promql.labels import NAME, Labels, make
from agent.rules.promql.regex import Pattern, compiled
from agent.rules.promql.syntax.matchers import Matcher, Operator, Selector
from plimsoll.text import shown

LONGEST = 20_000
"""Maximum length of an expression in characters."""
MOST_PARTS = 500
"""Maximum of parentheses and operators in an expression."""

_STRING = r""""(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|`[^`]*+`"""
_COMMENT = r"#[^\n]*+"
_HEX = "0[xX]_?[0-9a-fA-F]++(?:_[0-9a-fA-F]++)*+"
_DIGITS = "[0-9]++(?:_[0-9]++)*+"
_LITERAL = re.compile(
    rf"""(?:(?P<operator>[=!]~)(?P<between>(?:\s|{_COMMENT})*+))?(?P<text>{_STRING})|{_COMMENT}|(?P<open>["'`])"""
    rf"|(?<![\w.:])(?P<number>{_HEX}|{_DIGITS}(?:\.(?:{_DIGITS})?)?(?:[eE][+-]?{_DIGITS})?)(?!\w)",
    re.DOTALL,
)
_BRACES = re.compile(r"\{[^{}]*\}")
_PART = re.compile(r"[(+\-*/%^<>=!]|\b(?:and|or|unless|atan2)\b", re.IGNORECASE)
_BYTES = re.compile(r"\\(?:\\|x[89a-fA-F]|[23][0-7])")
_NUMBER = re.compile(
    r"(?<![\w.:])(?:\d++(?:\.\d*+)?|\.\d++)(?:e[+-]?\d++)?", re.ASCII | re.IGNORECASE
)
_QUOTED_NAME = re.compile(
    r"""\{(?:[^{}]*,)?\s*"|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()"]*\"""",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\[([^\[\]]*+)\]")
_OFFSET = re.compile(r"\boffset\s*+[-+]?\s*+([0-9][0-9.]*[eE][-+]?[0-9]++|[\w.]++)", re.IGNORECASE)
_DURATION = re.compile(r"(?:[0-9]+(?:ms|[smhdwy]))+")
_SECONDS = re.compile(r"(?P<hex>0[xX][0-9a-fA-F]+)|[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_DIGIT = re.compile(r"[0-9.]")
_EXPERIMENTAL = re.compile(r"[\])\w}\"]\s+(anchored|smoothed)\b|(</|>/)")

# Errors of the parser for text that is valid PromQL by grammar, but not by type.
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
_UNKNOWN = re.compile(r"unknown function with name '(\w*)'")
_RENAMED = {"holt_winters": "double_exponential_smoothing"}  # functions until Prometheus 2
_OPERATORS: Mapping[str, Operator] = {
    "MatchOp.Equal": Operator.EQUAL,
    "MatchOp.NotEqual": Operator.NOT_EQUAL,
    "MatchOp.Re": Operator.MATCHES,
    "MatchOp.NotRe": Operator.NOT_MATCHES,
}
_LABEL = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")
_LONGEST_DURATION = timedelta(days=292 * 365)  # 64 bits of nanoseconds, Prometheus' limit
Patterns = Callable[[promql_parser.Matcher], Pattern]
"""Returns the compiled regular expression of a matcher."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The parser's tree of an expression. Regular expressions in it are replaced by an index into `patterns`."""

    root: promql_parser.Expr
    patterns: Sequence[Pattern]

    def pattern(self, matcher: promql_parser.Matcher) -> Pattern:
        """Return the regular expression of a matcher."""
        return self.patterns[int(matcher.value.removeprefix("|"))]


def tree(text: str) -> Tree:
    """Parse an expression. Raises ExpressionError if it is invalid or not supported."""
    if len(text) > LONGEST:
        raise ExpressionError(f"the expression has more than {LONGEST} characters", "parse")
    plain = _LITERAL.sub(_blanked, text)
    unbraced = _BRACES.sub("", plain)
    if len(_PART.findall(unbraced)) > MOST_PARTS:
        raise ExpressionError(
            f"the expression has more than {MOST_PARTS} operators and parentheses", "parse"
        )
    # Checked before parsing, because the parser crashes on `@ 1e99` and `[1e99]`.
    if "@" in unbraced:
        raise unsupported("the @ modifier")
    _check_durations(unbraced)
    for number in _NUMBER.findall(unbraced):
        if math.isinf(float(number)):
            raise ExpressionError(f"the number {shown(number)} is out of range", "parse")
    _refuse_bytes(text)
    patterns: list[Pattern] = []
    try:
        root = _parsed(_LITERAL.sub(partial(_passed, patterns), text))
    except ExpressionError as error:
        if (experimental := _EXPERIMENTAL.search(plain)) and error.reason == "parse":
            raise unsupported(f"{experimental[1] or experimental[2]}, experimental,") from error
        raise
    if _QUOTED_NAME.search(plain):
        raise unsupported("a quoted name")
    return Tree(root, patterns)


def _blanked(literal: re.Match[str]) -> str:
    if literal["open"]:
        line, column = position(literal.string, literal.start())
        raise ExpressionError(f"{line}:{column}: unterminated string", "parse")
    if literal["number"]:
        return _plain(literal)
    return f'{literal["operator"] or ""} ""' if literal["text"] else "\n"


def _passed(patterns: list[Pattern], literal: re.Match[str]) -> str:
    """Return the replacement for a literal or comment that is passed to the parser."""
    if literal["number"]:
        return _plain(literal)
    if not (text := literal["text"]):
        return literal[0]
    text = _requoted(text)
    if not (operator := literal["operator"]):
        return text
    pattern = compiled(_parsed(text).val)
    patterns.append(pattern)
    # It rejects a selector whose matchers all match the empty text, so the replacement must match it if ours does.
    empty = "|" if pattern.fullmatch("") else ""
    return f'{operator}"{empty}{len(patterns) - 1}"'


def _plain(number: re.Match[str]) -> str:
    return number[0].replace("_", "")


def position(text: str, place: int) -> tuple[int, int]:
    """Return line and column, from 1, of an offset in a text."""
    return text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)


def _parsed(text: str) -> Any:
    try:
        return promql_parser.parse(text)
    except ValueError as error:
        raise _explained(str(error)) from error
    except BaseException as error:
        # A panic of the native parser is not an Exception, and would end the process after a user's mistake.
        if type(error).__name__ != "PanicException":
            raise
        raise ExpressionError(f"invalid expression: {error}", "parse") from error


def _requoted(text: str) -> str:
    """Return a literal with double quotes: unlike Prometheus, the parser interprets backslashes between backquotes."""
    return json.dumps(text[1:-1], ensure_ascii=False) if text.startswith("`") else text


def _refuse_bytes(text: str) -> None:
    """Reject bytes that are not characters. Go's strings are bytes, the parser's are characters: it reads `\\xff` differently."""
    for literal in _LITERAL.finditer(text):
        quoted = literal["text"] or "`"
        if quoted[0] != "`" and any(escape != r"\\" for escape in _BYTES.findall(quoted)):
            raise unsupported(f"a byte that is no character, in {shown(quoted)},")


def _check_durations(plain: str) -> None:
    """Reject calculated durations, which are experimental, and numbers of seconds that are 0 or would crash the parser."""
    between = [piece.strip() for brackets in _RANGE.findall(plain) for piece in brackets.split(":")]
    for pieces, least in ((between, 0.0), (_OFFSET.findall(plain), -1.0)):
        for piece in filter(_DIGIT.match, pieces):
            if (number := _SECONDS.fullmatch(piece)) is not None:
                seconds = float(int(piece, 16)) if number["hex"] else float(piece)
                if seconds > _LONGEST_DURATION.total_seconds():
                    raise out_of_range()
                if seconds <= least:
                    raise ExpressionError("a duration must be greater than 0", "parse")
            elif not _DURATION.fullmatch(piece):
                raise unsupported(f"the duration {shown(piece)}")


def _explained(text: str) -> ExpressionError:
    unknown = _UNKNOWN.search(text)
    if unknown is not None and (new := _RENAMED.get(unknown[1])):
        text = f"the function {unknown[1]}(), which Prometheus 3 calls {new}() and experimental,"
        return unsupported(text)
    reason: Reason = "type" if any(sign in text for sign in _TYPES) else "parse"
    return ExpressionError(text, reason)


@dataclass(frozen=True, slots=True)
class Selection:
    """A selector and its offset (ms before the evaluation; negative: after)."""

    selector: Selector
    offset: int


def selection(node: promql_parser.VectorSelector, patterns: Patterns) -> Selection:
    """Convert a vector selector. Raises ExpressionError if it uses unsupported features."""
    if node.matchers.or_matchers:
        raise unsupported("`or` between matchers")
    return Selection(_selector(node, patterns), milliseconds(node.offset))


def milliseconds(duration: timedelta | None) -> int:
    """Return a duration in ms, 0 for none. Raises ExpressionError if it is longer than Prometheus accepts."""
    delta = duration or timedelta()
    if abs(delta) > _LONGEST_DURATION:
        raise out_of_range()
    return delta // timedelta(milliseconds=1)


def label_names(names: list[str]) -> list[str]:
    """Return the names. Raises ExpressionError for a name that has to be quoted."""
    for name in names:
        if _LABEL.fullmatch(name) is None:
            raise unsupported(f"the label name {name!r}")
    return names


def asserted(selector: Selector) -> Labels:
    """Return the labels that a selector requires by equality, as absent() does; a label with several matchers is left out."""
    labels: dict[str, str] = {}
    seen: set[str] = set()
    for matcher in selector.matchers:
        if matcher.name == NAME:
            continue
        if matcher.operator is Operator.EQUAL and matcher.name not in seen:
            seen.add(matcher.name)
            labels[matcher.name] = matcher.value
        else:
            labels.pop(matcher.name, None)
    return make(labels.items())


def _selector(node: promql_parser.VectorSelector, patterns: Patterns) -> Selector:
    metric = node.name or ""
    matchers = []
    for node_matcher in node.matchers.matchers:
        matcher = _matcher(node_matcher, patterns)
        if not metric and matcher.name == NAME and matcher.operator is Operator.EQUAL:
            metric = matcher.value
        else:
            matchers.append(matcher)
    return Selector(metric, tuple(matchers))


def _matcher(node: promql_parser.Matcher, patterns: Patterns) -> Matcher:
    operator = _OPERATORS[str(node.op)]
    label_names([node.name])
    if operator in {Operator.EQUAL, Operator.NOT_EQUAL}:
        return Matcher(node.name, operator, node.value)
    pattern = patterns(node)
    return Matcher(node.name, operator, pattern.text, pattern)

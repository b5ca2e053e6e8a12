"""From an expression's text to the parser's tree, but for what would harm the parser or what only newer releases take.

The parser is a recursive one, and a native one: too deep a nesting would end the process, not raise.
"""

import re

import promql_parser

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
_NEWER = {
    "a quoted name between braces": re.compile(r"""\{(?:[^{}]*,)?\s*["][^{}]*\}"""),
    "a duration without a unit": re.compile(
        r"\[\s*[\d.]+\s*[\]:]|:\s*[\d.]+\s*\]|\boffset\s+-?\s*[\d.]+(?![\d.a-zA-Z])", re.IGNORECASE
    ),
    "arithmetic with durations": re.compile(
        r"\[[^\]]*[-+*/%^(][^\]]*\]|\boffset\s*-?\s*\(", re.IGNORECASE
    ),
    "a duration as a number": re.compile(
        r"(?<![\w.:\[])(?<!offset )(?<!offset -)[0-9]+(?:ms|[smhdwy])[0-9a-z]*(?![\w\]:])",
        re.IGNORECASE,
    ),
}

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
_UNKNOWN = re.compile(r"unknown function with name '(\w*)'")
_OLDER = frozenset({"holt_winters"})  # functions of Prometheus that the parser does not know


def tree(text: str) -> promql_parser.Expr:
    """The tree of an expression; ExpressionError of what is none."""
    _check(text)
    try:
        return promql_parser.parse(text)
    except ValueError as error:
        raise _explained(str(error)) from error


def _check(text: str) -> None:
    if len(text) > LONGEST:
        raise ExpressionError(f"more than {LONGEST} characters", "parse")
    for literal in _LITERAL.finditer(text):
        quoted = literal["text"] or "`"
        if quoted[0] != "`" and any(found != r"\\" for found in _BYTES.findall(quoted)):
            raise unsupported(f"a byte that is no character, in {shown(quoted)},")
    plain = _LITERAL.sub(lambda literal: '""' if literal["text"] else "\n", text)
    for what, newer in _NEWER.items():
        if newer.search(plain):
            raise unsupported(what)
    if len(_PART.findall(_BRACES.sub("", plain))) > MOST_PARTS:
        raise ExpressionError(f"more than {MOST_PARTS} operators and parentheses", "parse")


def _explained(text: str) -> ExpressionError:
    unknown = _UNKNOWN.search(text)
    if unknown is not None and unknown[1] in _OLDER:
        return unsupported(f"the function {unknown[1]}()")
    reason: Reason = "type" if any(sign in text for sign in _TYPES) else "parse"
    return ExpressionError(text, reason)

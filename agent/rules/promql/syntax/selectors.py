"""Converts the parser's selectors and durations."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

import promql_parser

from agent.rules.promql.errors import out_of_range, unsupported
from agent.rules.promql.labels import NAME, Labels, make
from agent.rules.promql.regex import Pattern
from agent.rules.promql.syntax.matchers import Matcher, Operator, Selector

_OPERATORS: Mapping[str, Operator] = {
    "MatchOp.Equal": Operator.EQUAL,
    "MatchOp.NotEqual": Operator.NOT_EQUAL,
    "MatchOp.Re": Operator.MATCHES,
    "MatchOp.NotRe": Operator.NOT_MATCHES,
}
_LABEL = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")
_LONGEST = timedelta(days=292 * 365)  # 64 bits of nanoseconds, Prometheus' limit


@dataclass(frozen=True, slots=True)
class Selection:
    """A selector and its offset (ms before the evaluation; negative: after)."""

    selector: Selector
    offset: int


Patterns = Callable[[promql_parser.Matcher], Pattern]
"""Returns the compiled regular expression of a matcher."""


def selection(node: promql_parser.VectorSelector, patterns: Patterns) -> Selection:
    """Convert a vector selector. Raises ExpressionError if it uses unsupported features."""
    if node.matchers.or_matchers:
        raise unsupported("`or` between matchers")
    return Selection(_selector(node, patterns), milliseconds(node.offset))


def milliseconds(duration: timedelta | None) -> int:
    """Return a duration in ms, 0 for none. Raises ExpressionError if it is longer than Prometheus accepts."""
    delta = duration or timedelta()
    if abs(delta) > _LONGEST:
        raise out_of_range()
    return delta // timedelta(milliseconds=1)


def label_names(names: list[str]) -> list[str]:
    """Return the names. Raises ExpressionError for a name that Prometheus 2.42 does not accept."""
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

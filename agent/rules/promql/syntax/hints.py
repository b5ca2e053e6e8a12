"""Hints on why an expression has an empty result."""

import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence

from agent.rules.promql.labels import NAME, Labels
from agent.rules.promql.labels import value as value_of
from agent.rules.promql.syntax.matchers import Selector
from agent.rules.promql.syntax.printer import quoted, series

_SHOWN = 3
_PREFIX = "node_"


def nothing(selectors: Iterable[Selector], known: Collection[Labels], *, where: str) -> list[str]:
    """Return a sentence for each selector that matches none of the known series, or one that says all selectors match.

    `where`: what the series belong to, such as "this machine".
    """
    hints = [
        sentence
        for selector in dict.fromkeys(selectors)
        if (sentence := _unmatched(selector, known, where))
    ]
    return hints or ["matching series exist, but the result is empty"]


def written(selector: Selector) -> str:
    """Return a selector in PromQL syntax."""
    conditions = [
        f"{matcher.name}{matcher.operator}{quoted(matcher.value)}" for matcher in selector.matchers
    ]
    return f"{selector.metric}{{{', '.join(conditions)}}}" if conditions else selector.metric


def _unmatched(selector: Selector, known: Collection[Labels], where: str) -> str:
    alike = []
    for labels in known:
        if selector(labels):
            return ""
        if selector.metric and value_of(labels, NAME) == selector.metric:
            alike.append(series(labels))
    if alike:
        return f"no series {written(selector)}; {where} has: {_some(sorted(alike))}"
    near = close(selector.metric, {value_of(labels, NAME) for labels in known})
    has = f"; {where} has: {', '.join(near)}" if near else f" on {where}"
    return f"no series {written(selector)}{has}"


def close(metric: str, names: Iterable[str]) -> list[str]:
    """Return the names most similar to a metric's name, including the one that only adds `node_`."""
    candidates = sorted(names)
    near = difflib.get_close_matches(_PREFIX + metric, candidates, _SHOWN, cutoff=0.8)
    near += difflib.get_close_matches(metric, candidates, _SHOWN, cutoff=0.7)
    return list(dict.fromkeys(near))[:_SHOWN]


def _some(texts: Sequence[str]) -> str:
    return ", ".join(_few(texts))


def _few(texts: Sequence[str]) -> Iterator[str]:
    yield from texts[:_SHOWN]
    if (more := len(texts) - _SHOWN) > 0:
        yield f"and {more} more"

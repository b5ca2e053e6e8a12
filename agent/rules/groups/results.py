"""Combines the results of all rule groups into families for /metrics and the stream, and detects notable changes."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from agent.rules.groups.file import Group, RuleError
from agent.rules.groups.tick import Results, TickResult, unknown
from agent.rules.promql.labels import NAME, Labels
from agent.rules.promql.values import Vector
from collectors.interface.sample import Family, Sample
from plimsoll.text import one_line

_SHOWN = 120  # characters of an expression in a HELP line
_LIFE = 3  # intervals for which a result is valid


@dataclass(frozen=True)
class Published:
    """The results of all groups at one moment; immutable."""

    results: Results = field(default_factory=dict)
    """Recorded series by metric, each once."""
    unread: frozenset[str] = frozenset()
    """Metrics without a result whose value is unknown."""
    errors: tuple[RuleError, ...] = ()
    until: float = math.inf
    """Time (ms) at which the first result becomes too old."""
    help: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """Return the results as families sorted by name. Built on first use: most ticks are neither scraped nor sent."""
        results = self.results
        return tuple(_family(name, results[name], self.help[name]) for name in sorted(results))


@dataclass(frozen=True, slots=True)
class GroupResult:
    """A group and its latest result. Times in ms."""

    group: Group
    interval: int
    result: TickResult

    @property
    def until(self) -> int:
        """The time until which the result is valid."""
        return self.result.time + _LIFE * self.interval

    def now(self, time: int) -> TickResult:
        """Return the result as of this time: unknown if it is too old."""
        if time <= self.until:
            return self.result
        return unknown(self.group, self.result.time, self.result.errors)


def publish(
    groups: Iterable[GroupResult],
    now: int,
    help_texts: Mapping[str, str],
    shared: Collection[str],
) -> Published:
    """Combine the results of groups. If rules record the same series, the first one counts. `shared`: metrics of several rules."""
    merged: dict[str, Vector] = {}
    unread: set[str] = set()
    errors: list[RuleError] = []
    until = math.inf
    for word in groups:
        result = word.now(now)
        errors += result.errors
        unread |= result.unread
        if result.results:
            until = min(until, word.until)
        for metric, vector in result.results.items():
            if metric not in shared:  # of one rule: distinct
                merged[metric] = vector
                continue
            vectors = [merged[metric], vector] if metric in merged else [vector]
            merged[metric], twice = _distinct(vectors)
            if twice:
                text = "an earlier rule records the same series; its value is kept"
                errors.append(RuleError(word.group.name, metric, "duplicate", text))
    return Published(merged, frozenset(unread - merged.keys()), tuple(errors), until, help_texts)


def _distinct(vectors: Sequence[Vector]) -> tuple[Vector, bool]:
    """Return all series, each once, and whether some occurred twice."""
    distinct: dict[Labels, float] = {}
    for labels, value in chain(*vectors):
        distinct.setdefault(labels, value)
    if len(distinct) == sum(map(len, vectors)):
        return (vectors[0] if len(vectors) == 1 else list(chain(*vectors))), False
    return list(distinct.items()), True


def help_texts(groups: Iterable[Group]) -> Mapping[str, str]:
    """Return the HELP text of each metric that groups record."""
    expressions: dict[str, list[str]] = {}
    for group in groups:
        for rule in group.rules:
            expressions.setdefault(rule.record, []).append(rule.expression.text)
    return {
        metric: f"Recorded by {_rules(len(texts))}: {one_line(texts[0], _SHOWN)}"
        for metric, texts in expressions.items()
    }


def _rules(number: int) -> str:
    return "a rule" if number == 1 else f"{number} rules, of which the first is"


def _family(name: str, vector: Vector, described: str) -> Family:
    samples = tuple(
        Sample(name, tuple(pair for pair in labels if pair[0] != NAME), value)
        for labels, value in vector
    )
    return Family(name, "gauge", described, samples)


def is_notable(before: Results, now: Results, metrics: Collection[str], share: float) -> bool:
    """Return whether one of these metrics appeared, disappeared, or changed by more than this share of its value."""
    return any(_moved(before.get(m, []), now.get(m, []), share) for m in metrics)


def _moved(before: Vector, now: Vector, share: float) -> bool:
    if len(before) != len(now):
        return True
    if len(now) != 1:  # several samples have no single value to send
        return False
    ((_, old),), ((_, new),) = before, now
    if old == new or (math.isnan(old) and math.isnan(new)):
        return False
    return not abs(new - old) <= share * abs(old)

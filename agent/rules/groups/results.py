"""Combines the results of all rule groups into families for /metrics and the stream, and detects notable changes."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agent.rules.groups.file import Group, RuleError
from agent.rules.groups.group import TickResult, unknown
from agent.rules.promql.labels import NAME, Labels
from agent.rules.promql.values import Vector
from collectors.base.sample import Family, Sample
from plimsoll.text import one_line

_SHOWN = 120  # characters of an expression in a HELP line
_LIFE = 3  # intervals for which a result is valid

Numbers = Mapping[str, tuple[float, ...]]
"""Values of metrics in the order of their series."""


@dataclass(frozen=True, slots=True)
class Published:
    """The results of all groups at one moment; immutable."""

    families: tuple[Family, ...] = ()
    unread: frozenset[str] = frozenset()
    """Metrics without a result whose value is unknown."""
    errors: tuple[RuleError, ...] = ()
    until: float = math.inf
    """Time (ms) at which the first result becomes too old."""
    numbers: Numbers = field(default_factory=dict)


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


def publish(groups: Sequence[GroupResult], now: int) -> Published:
    """Combine the results of groups. If rules record the same series, the first one counts."""
    merged: dict[str, dict[Labels, float]] = {}
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
            if _add(merged.setdefault(metric, {}), vector):
                text = "a rule before it records the same series, which counts"
                errors.append(RuleError(word.group.name, metric, "duplicate", text))
    described = _help(word.group for word in groups)
    return Published(
        tuple(_family(name, merged[name], described[name]) for name in sorted(merged)),
        frozenset(unread - merged.keys()),
        tuple(errors),
        until,
        {name: tuple(found.values()) for name, found in merged.items()},
    )


def _add(known: dict[Labels, float], vector: Vector) -> bool:
    """Add series that are new. Returns whether some existed before."""
    twice = False
    for found, value in vector:
        twice |= found in known
        known.setdefault(found, value)
    return twice


def _help(groups: Iterable[Group]) -> Mapping[str, str]:
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


def _family(name: str, series: Mapping[Labels, float], described: str) -> Family:
    samples = tuple(
        Sample(name, tuple(pair for pair in labels if pair[0] != NAME), value)
        for labels, value in series.items()
    )
    return Family(name, "gauge", described, samples)


def is_notable(before: Numbers, now: Numbers, metrics: Collection[str], share: float) -> bool:
    """Return whether one of these metrics appeared, disappeared, or changed by more than this share of its value."""
    return any(_moved(before.get(m, ()), now.get(m, ()), share) for m in metrics)


def _moved(before: Sequence[float], now: Sequence[float], share: float) -> bool:
    if len(before) != len(now):
        return True
    if len(now) != 1:  # several samples have no single value to send
        return False
    (old,), (new,) = before, now
    if old == new or (math.isnan(old) and math.isnan(new)):
        return False
    return not abs(new - old) <= share * abs(old)

"""The metrics requested from sources: those that policies use, in a list with a generation for agents, and extra ones;
and similar metrics, as agents report them and other policies use them, in place of those that no node has.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from evaluator.core.catalog import nearest, similar
from evaluator.core.policy.decide import Decisions
from evaluator.core.readings import node_conditions
from evaluator.core.readings.peer_metrics import peer_metric
from plimsoll.metric_names import PREFIX
from plimsoll.text import NearNames

_COMPARED = 20
"""Metrics that are compared with those of other policies; conditions that one is compared with."""
_NAMED = 3
"""Names suggested for a metric."""
_SAME = 0.9
"""difflib's ratio of a condition's metric with a typing error; their names share a long prefix."""
_KEPT = 16
"""Names kept for a metric; thousands of agents may report different ones."""
_STEP = 20
"""Names prepared for comparison in one step, well below a millisecond."""
_PATIENCE = 5.0
"""Seconds to wait for the first agent's names."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A list of metric names; `generation` starts at 1 and is unique per list."""

    generation: int
    metrics: tuple[str, ...]


class Subscriptions:
    """Holds the current subscription, and lets callers wait for the next."""

    def __init__(self) -> None:
        self.current = Subscription(1, ())
        self._changed = asyncio.Event()

    def want(self, metrics: Iterable[str]) -> bool:
        """Subscribe to exactly these metrics; returns whether that is a change."""
        requested = tuple(sorted(set(metrics)))
        if requested == self.current.metrics:
            return False
        self.current = Subscription(self.current.generation + 1, requested)
        self._changed.set()
        self._changed = asyncio.Event()
        return True

    async def after(self, generation: int) -> Subscription:
        """Return the current subscription once its generation differs from the given one."""
        while self.current.generation == generation:
            await self._changed.wait()
        return self.current


class ExtraMetrics(Protocol):
    """Names of metrics, exact or by patterns that agents match."""

    @property
    def patterns(self) -> Sequence[str]:
        """Patterns with `*`, for agents to match."""
        ...

    @property
    def wanted(self) -> frozenset[str]:
        """The metrics to request now."""
        ...

    def found(self, names: Iterable[str]) -> bool:
        """Add names of an agent that match the patterns; return whether one is new."""
        ...

    def update(self, of_policies: Iterable[frozenset[str]], left_out: Collection[str]) -> None:
        """Take over the metrics of policies after a decision; those that are `left_out` have no readings."""
        ...


class AllExtraMetrics:
    """The extra metrics of all features."""

    def __init__(self) -> None:
        self._parts: list[ExtraMetrics] = []

    def add(self, part: ExtraMetrics) -> None:
        """Add those of a feature."""
        self._parts.append(part)

    @property
    def patterns(self) -> Sequence[str]:
        """Patterns with `*`, for agents to match."""
        return tuple(pattern for part in self._parts for pattern in part.patterns)

    @property
    def wanted(self) -> frozenset[str]:
        """The metrics to request now."""
        return frozenset[str]().union(*(part.wanted for part in self._parts))

    def found(self, names: Iterable[str]) -> bool:
        """Add names of an agent that match the patterns; return whether one is new."""
        known = tuple(names)
        return sum(part.found(known) for part in self._parts) > 0

    def update(self, of_policies: Iterable[frozenset[str]], left_out: Collection[str]) -> None:
        """Take over the metrics of policies after a decision; those that are `left_out` have no readings."""
        used = tuple(of_policies) if self._parts else ()
        for part in self._parts:
            part.update(used, left_out)


class SimilarMetrics:
    """Names of similar metrics. `agents`: whether agents report some; `conditions`: the metrics of nodes' conditions."""

    def __init__(
        self, *, agents: bool = True, conditions: Callable[[], Collection[str]] = tuple
    ) -> None:
        self._conditions = conditions
        self._patience = _PATIENCE if agents else 0.0
        self._reported: dict[str, dict[str, int]] = {}
        """By metric: names and how many agents reported them."""
        self._current: set[str] = set()
        """The metrics in `_reported` with names for the current subscription."""
        self._since: dict[str, float] = {}
        """When a metric was first found missing (seconds)."""
        self._found: dict[str, Sequence[str]] = {}
        self._used = set[str]()
        """The metrics that nodes have and policies use."""
        self._names = NearNames()
        """Their names."""

    def to(self, metric: str) -> Sequence[str] | None:
        """Return metrics that nodes have and that are similar to one that no node has; None until that is known."""
        return self._found.get(metric)

    def report(self, names: Mapping[str, Sequence[str]]) -> bool:
        """Add what one agent found, by metric; returns whether a metric or name is new."""
        new = False
        for metric, found in names.items():
            known = self._reported.setdefault(metric, {})
            if metric not in self._current:
                self._current.add(metric)
                known.clear()
                new = True
            for name in found:
                if name in known or len(known) < _KEPT:
                    new |= name not in known
                    known[name] = known.get(name, 0) + 1
        return new

    def subscribed(self, metrics: Collection[str]) -> None:
        """The agents were sent another subscription: they report names again."""
        self._current.clear()
        for metric in self._reported.keys() - metrics:
            del self._reported[metric]

    def update(self, decisions: Decisions, now: float) -> Iterator[bool]:
        """Update what `to` returns, in small steps; the last one yields whether anything changed."""
        missing, used = list[str](), set[str]()
        for metric, column in tuple(decisions.table.prepared.items()):
            if metric not in decisions.table.derived and peer_metric(metric) is None:
                presence = column.presence
                if presence.not_found:
                    missing.append(metric)
                elif presence.having:
                    used.add(metric)
            yield False
        if missing and used != self._used:
            self._names, self._used = NearNames(), used
            for number, name in enumerate(used, start=1):
                self._names.add(name.removeprefix(PREFIX))
                if number % _STEP == 0:
                    yield False
        self._since = {metric: self._since.get(metric, now) for metric in missing}
        found: dict[str, Sequence[str]] = {}
        for number, metric in enumerate(missing):
            names = self._names_for(metric, now, compare=number < _COMPARED)
            if names is not None:
                found[metric] = names
            yield False
        changed, self._found = found != self._found, found
        yield changed

    def _names_for(self, metric: str, now: float, *, compare: bool) -> Sequence[str] | None:
        """Return the names for a missing metric; None while agents may still report some."""
        if metric.startswith(node_conditions.PREFIX):
            known = NearNames(sorted(self._conditions())[:_COMPARED])
            return tuple(known.find(metric, _NAMED, _SAME))
        reported = self._reported.get(metric)
        if reported is None and now - self._since[metric] < self._patience:
            return None
        others = similar(metric, self._names, _NAMED) if compare else []
        return tuple(nearest(metric, [*_most_frequent_first(reported or {}), *others], _NAMED))


def _most_frequent_first(counts: Mapping[str, int]) -> list[str]:
    return sorted(counts, key=lambda name: (-counts[name], name))

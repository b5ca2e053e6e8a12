"""Samples this machine's metrics every second for one expression, and keeps as much as the expression looks back."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from agent.rules.clock import Clock
from agent.rules.groups import dependencies
from agent.rules.groups.file import Group, RuleError
from agent.rules.groups.group import RunningGroup
from agent.rules.groups.tick import Tick, TickResult, by_metric
from agent.rules.inputs import RuleInputs
from agent.rules.promql.expression import Expression
from agent.rules.promql.labels import Labels, of_series
from agent.rules.promql.plan import Need
from agent.rules.promql.values import Moment, Vector
from agent.rules.storage.head import Head
from agent.rules.storage.shared_head import SharedHead
from agent.scrape.runner import CollectorRunner, Scrape

SECOND = 1_000
"""Milliseconds between two ticks."""


CLOCK = Clock()


def ticks(
    clock: Callable[[], int] = CLOCK.boot, sleep: Callable[[float], None] = time.sleep
) -> Iterator[int]:
    """Yield the time now and after each second; skips ticks that are already late.

    The times are exactly a second apart, so that each range has the expected number of samples.
    """
    begin, number = clock(), 0
    while True:
        yield begin + number * SECOND
        passed = clock() - begin
        number = max(number + 1, -(-passed // SECOND))
        sleep((number * SECOND - passed) / 1000)


class Sampler:
    """Runs, on each tick, the collectors and rule groups that one expression needs."""

    def __init__(
        self,
        expression: Expression,
        source: CollectorRunner,
        groups: Sequence[Group] = (),
        *,
        step: int = 5 * SECOND,
        closed: bool = False,
    ) -> None:
        """`step` (ms): default step of subqueries. `closed`: see `Moment`."""
        self._source = source
        self._step = step
        self._closed = closed
        self._history = Head(expression.needs)
        shared, serving = SharedHead(), RuleInputs(source).collectors
        self._groups = [
            RunningGroup(group, serving, shared) for group in _groups_for(expression, groups)
        ]
        sources = (group.sources for group in self._groups)
        self._names = serving(expression.needs).union(*sources)
        self.reach = _reach(expression.needs) + sum(
            _reach(dependencies.needs(group.group)) for group in self._groups
        )
        """Milliseconds to sample until no result can change any more."""
        self.failed: frozenset[str] = frozenset()
        """Collectors that could not read their source on the last tick."""

    @property
    def collectors(self) -> Sequence[str]:
        """Names of the enabled collectors."""
        return self._source.names

    @property
    def errors(self) -> tuple[RuleError, ...]:
        """Errors of rules on the last tick."""
        return tuple(error for group in self._groups for error in group.result.errors)

    def inputs(self, metrics: Collection[str]) -> Sequence[tuple[str, Sequence[Need]]]:
        """Return those of the metrics that rules record, and the recorded metrics behind them, each with what its rules read."""
        needed_metrics, needs_by_metric = set(metrics), dict[str, list[Need]]()
        for running in reversed(self._groups):
            for rule in reversed(running.group.rules):
                if rule.record in needed_metrics:
                    needs_by_metric.setdefault(rule.record, []).extend(rule.expression.needs)
                    needed_metrics.update(need.selector.metric for need in rule.expression.needs)
        return list(needs_by_metric.items())

    def take(self, now: int) -> Moment:
        """Read at a tick. Returns the moment, whose storage has the samples."""
        scrape = self._source.run(self._names)
        self.failed = scrape.failed
        moment = Moment(self._history, now, CLOCK.epoch(), self._step, self._closed)
        recorded = self._record(moment, scrape)
        self._history.begin(now)
        for family in scrape.families:
            self._history.add_family(family.samples, family.type)
        for labels, value in recorded:
            self._history.add(labels, value)
        self._history.settle()
        self._history.end()
        return moment

    def _record(self, moment: Moment, scrape: Scrape) -> Vector:
        """Return the rules' results, except metrics that are collected."""
        families = by_metric(scrape.families)
        tick_results: list[TickResult] = []
        for group in self._groups:
            tick = Tick(
                moment.time,
                moment.epoch,
                self._step,
                families,
                families.keys(),
                scrape.failed,
                tick_results,
                closed=self._closed,
            )
            tick_results.append(group.tick(tick))
        return [
            sample
            for result in tick_results
            for vector in result.results.values()
            for sample in vector
        ]

    def everything(self) -> list[Labels]:
        """Return all current series."""
        families = self._source.run().families
        collected = [
            of_series(sample.name, sample.labels, family.type)
            for family in families
            for sample in family.samples
        ]
        results = (group.result.results.values() for group in self._groups)
        return collected + [
            labels for vectors in results for vector in vectors for labels, _ in vector
        ]


def _groups_for(expression: Expression, groups: Sequence[Group]) -> list[Group]:
    """Return the groups whose results an expression reads, directly or indirectly, in order of evaluation."""
    first = [
        group.name
        for group in groups
        for metric in dependencies.recorded([group])
        if any(dependencies.may_name(need.selector, metric) for need in expression.needs)
    ]
    needed_metrics = dependencies.closure(first, dependencies.dependencies(groups))
    return [group for group in dependencies.ordered(groups) if group.name in needed_metrics]


def _reach(needed: Iterable[Need]) -> int:
    return max((need.reach for need in needed), default=0)

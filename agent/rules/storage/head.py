"""Results of one rule group and of those that it reads: only series that a selector matches, only as far back as it reaches.

`add_family` is for programs that evaluate one expression: an agent's groups share the collected series (`SharedHead`).

A tick is a moment at which the group's sources were read. On each tick, call:

    history.begin(time)
    history.add_family(samples)          # or add(labels, value): everything collected
    history.settle()                     # all is added: series without a sample become stale
    history.record(rule, vector)         # after each rule, in order: later rules see its results
    history.end()

- If a collector failed, do not add its metrics. Its series become stale, as in a Prometheus whose scrape of node_exporter
  lacks them, so no rule uses values that were not read. Ranges extend over the gap. Publishers of results must report
  what is missing as unread, not absent.
- If a rule could not be evaluated, call `hold(rule)`. Its earlier results are neither sampled nor stale, so they count until
  the lookback ends, as in Prometheus.
- Without a tick (the agent was down or late), samples are just missing.
"""

import math
from collections.abc import Iterable

from agent.rules.promql.budget import Budget
from agent.rules.promql.labels import NAME, Labels, of_series
from agent.rules.promql.labels import value as value_of
from agent.rules.promql.plan import Need
from agent.rules.promql.values import LOOKBACK, Vector, same
from agent.rules.storage.index import MetricSeries, SeriesIndex
from agent.rules.storage.series import STALE, UNKNOWN, StoredSeries
from agent.rules.storage.snapshot import Snapshot
from agent.rules.storage.store import SeriesStore
from collectors.interface.sample import Sample

_COLLECTED = ""  # source of collected series


class Head(SeriesStore):
    """The storage of one rule group (a `values.Storage`). One thread at a time.

    It cannot be used after a FullError: drop it and stop the group.
    """

    def __init__(
        self,
        needs: Iterable[Need],
        *,
        limit: float = math.inf,
        budget: Budget | None = None,
    ) -> None:
        """`limit`: approximate bytes. `budget`: checked for each new series; its LimitError is passed on."""
        needs = tuple(needs)
        super().__init__(SeriesIndex(needs), budget=budget)
        self.limit = limit
        self._reach = max([LOOKBACK, *(need.reach for need in needs)])
        self._open = False
        self._sources: dict[str, list[StoredSeries]] = {_COLLECTED: []}
        self._finished: set[str] = set()

    def needs(self, name: str) -> bool:
        """Return whether a selector may match series of this metric."""
        return self._index.metric(name) is not None

    def begin(self, time: int) -> None:
        """Begin a tick at a time in ms. Raises ValueError if it is not later than the last one, FullError if memory is used up.

        If the last tick was not ended, series without a sample in it are unknown there.
        """
        if self._open:
            self._abandon()
        self.check()
        self._tick = self._timeline.push(time)
        self._open = True
        self._finished.clear()

    def add_family(self, samples: Iterable[Sample], metric_type: str = "untyped") -> None:
        """Add the collected samples of a family, labels in the exporter's order. Raises FullError if memory is used up.

        Of samples of one series within a tick, the first one counts.
        """
        tick = self._tick
        name, metric = "", None
        for sample_name, pairs, value in samples:
            if sample_name != name:
                name, metric = sample_name, self._index.metric(sample_name)
            if metric is None:
                continue
            try:
                series = metric.known[pairs]
            except KeyError:
                series = self._series(metric, of_series(name, pairs, metric_type))
                self._index.remember(metric, pairs, series)
            if series is None:
                continue
            if value == series.value and (value or same(value, series.value)):
                series.seen = tick
            else:
                self._add(series, value, _COLLECTED)

    def add(self, labels: Labels, value: float) -> None:
        """Add one collected series, or another group's result. Raises FullError if memory is used up."""
        self._keep(labels, value, _COLLECTED)

    def settle(self) -> None:
        """End collection: series without a sample are stale from this tick on."""
        self._finish(_COLLECTED)

    def record(self, rule: str, vector: Vector) -> bool:
        """Add a rule's results; earlier series that are missing now become stale. Raises FullError if memory is used up.

        `rule`: identifies the rule within its group, also after a restart of the agent; not empty. Returns whether there are new
        series.
        """
        known = len(self._all)
        self._sources.setdefault(rule, [])
        for labels, value in vector:
            self._keep(labels, value, rule)
        self._finish(rule)
        return len(self._all) > known

    def hold(self, rule: str) -> None:
        """Mark a rule's results as unknown on this tick."""
        for series in self._sources.get(rule, ()):
            if series.value is not None and series.seen != self._tick:
                series.gap(self._tick, UNKNOWN)
        self._finished.add(rule)

    def end(self) -> None:
        """End the tick: results of rules that were neither recorded nor held become stale, and old samples are dropped."""
        for source in self._sources.keys() - self._finished:
            self._finish(source)
        self._close()

    def snapshot(self) -> Snapshot:
        """Return a copy of everything. A tick that was not ended is discarded."""
        if self._open:
            self._abandon()
        return self._snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Start with a snapshot, as far as selectors match. Raises ValueError after the first tick, FullError if it takes too much memory.

        Results in the snapshot belong to the rules of the same name.
        """
        if self._tick >= 0:
            raise ValueError("a history that has begun cannot take over another one")
        self._timeline.restore(snapshot.base, snapshot.times)
        self._tick = self._timeline.latest
        for saved in snapshot.series:
            metric = self._index.metric(value_of(saved.labels, NAME))
            if metric is None or (series := self._series(metric, saved.labels)) is None:
                continue
            series.restore(saved)
            if series.live:
                self._sources.setdefault(saved.source, []).append(series)
            self._measure(series)
            self.check()

    def _keep(self, labels: Labels, value: float, source: str) -> None:
        metric = self._index.metric(value_of(labels, NAME))
        if metric is not None and (series := self._series(metric, labels)) is not None:
            self._add(series, value, source)

    def _series(self, metric: MetricSeries, labels: Labels) -> StoredSeries | None:
        series = metric.series.get(labels)
        if series is None:
            self._budget.check()
        if series is None and (reach := metric.reach(labels)) is not None:
            series = self._new(metric, labels, reach)
        return series

    def _add(self, series: StoredSeries, value: float, source: str) -> None:
        self._sample(series, value)
        if not series.live:
            series.live = True
            series.source = source
            self._sources[source].append(series)

    def _finish(self, source: str) -> None:
        tick = self._tick
        live = self._sources[source]
        self._finished.add(source)
        if gone := [series for series in live if series.seen != tick]:
            for series in gone:
                series.gap(tick, STALE)
                series.live = False
            self._sources[source] = [series for series in live if series.live]

    def _abandon(self) -> None:
        for source in self._sources.keys() - self._finished:
            self.hold(source)
        self._close()

    def _close(self) -> None:
        self._open = False
        self._forget(self._timeline.times[-1])

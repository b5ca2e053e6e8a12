"""The samples that one rule group needs, in memory: only series that some selector matches, only as far back as it asks.

A tick is a moment at which the group's sources were read. Whoever drives a group does, at each tick:

    history.begin(time)
    history.add_family(samples)          # or add(labels, value): whatever was read, wanted or not
    history.settle()                     # all was read: what did not come is stale from this tick on
    history.record(rule, vector)         # after each rule, in order: later rules see its results at once
    history.end()

- A collector that failed: do not add its metrics. Its series are then stale, as for a Prometheus whose scrape of
  node_exporter lacks them: no rule decides on values that nobody read. Ranges reach over the hole. Whoever
  publishes the results knows that what is missing is unread, not absent.
- A rule that could not be evaluated: `hold(rule)`. Its former results are neither sampled nor stale, so they count until
  the look-back is over, as in Prometheus.
- No tick at all (the agent was down, or late) is only a missing sample.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol

from agent.rules.labels import NAME, Labels, of_series
from agent.rules.labels import value as value_of
from agent.rules.matchers import Selector
from agent.rules.runs import STALE, UNKNOWN, StoredSeries
from agent.rules.timeline import Timeline
from agent.rules.values import LOOKBACK, Vector
from collectors.sample import Labels as Pairs
from collectors.sample import Sample
from plimsoll.sentences import SentenceError

_TURNS = 16  # ticks in which each series has its turn at dropping what is too old
_COLLECTED = object()  # the source of what is not a rule's result


class FullError(SentenceError):
    """A group's history would take more memory than it may. It is of no use afterwards: drop it and stop the group."""


class Need(Protocol):
    """Series that an expression looks at, and how far back (ms) before the moment of its evaluation."""

    @property
    def selector(self) -> Selector:
        """Which series."""
        ...

    @property
    def reach(self) -> int:
        """Milliseconds; 0 if only the present value counts."""
        ...


class History:
    """The storage of one rule group (a `values.Storage`). Not for several threads at once."""

    def __init__(self, needs: Iterable[Need], *, limit: int | None = None) -> None:
        """`limit`: bytes that it may take, about."""
        self._needs = tuple(needs)
        self._limit = limit
        self._timeline = Timeline()
        self._reach = max((need.reach for need in self._needs), default=0)
        self._tick = -1
        self._open = False
        self._metrics: dict[str, _Metric | None] = {}
        self._all: list[StoredSeries] = []
        self._turn = 0
        self._bytes = 0
        self._sources: dict[Hashable, list[StoredSeries]] = {_COLLECTED: []}
        self._finished: set[Hashable] = set()

    def needs(self, name: str) -> bool:
        """Whether some selector may match a series of this metric."""
        return self._metric(name) is not None

    def begin(self, time: int) -> None:
        """A tick at this time (ms, later than the one before, else ValueError). FullError if memory is used up."""
        if self._open:
            self._abandon()
        self._check(0)
        self._tick = self._timeline.push(time)
        self._open = True
        self._finished.clear()

    def add_family(self, samples: Iterable[Sample]) -> None:
        """What was collected of some metrics, in the exporter's own order of labels. FullError if memory is used up."""
        tick = self._tick
        name, metric = "", None
        for sample in samples:
            if sample[0] != name:
                name = sample[0]
                metric = self._metric(name)
            if metric is None:
                continue
            pairs = sample[1]
            try:
                series = metric.known[pairs]
            except KeyError:
                series = metric.known[pairs] = self._series(metric, of_series(name, pairs))
            if series is None:
                continue
            value = sample[2]
            if value == series.value:
                series.seen = tick
            else:
                self._add(series, value, _COLLECTED)

    def add(self, labels: Labels, value: float) -> None:
        """One series that was collected, or is another group's result. FullError if memory is used up."""
        self._keep(labels, value, _COLLECTED)

    def settle(self) -> None:
        """All that was collected has been added: what did not come is stale from this tick on."""
        self._finish(_COLLECTED)

    def record(self, rule: Hashable, vector: Vector) -> None:
        """The results of a rule at this tick; what it yielded before and does not now is stale. FullError as above."""
        self._sources.setdefault(rule, [])
        for labels, value in vector:
            self._keep(labels, value, rule)
        self._finish(rule)

    def hold(self, rule: Hashable) -> None:
        """Nothing is known of a rule's results at this tick."""
        for series in self._sources.get(rule, ()):
            if series.value is not None and series.seen != self._tick:
                series.gap(self._tick, UNKNOWN)
        self._finished.add(rule)

    def end(self) -> None:
        """Close the tick: results of rules that had no say are stale, and samples that are too old are dropped."""
        for source in [source for source in self._sources if source not in self._finished]:
            self._finish(source)
        self._open = False
        self._forget()

    def select(self, selector: Selector) -> Sequence[StoredSeries]:
        """See `values.Storage`; series that are stale are among them as long as a range may reach them."""
        if selector.metric:
            metric = self._metrics.get(selector.metric)
            return (
                () if metric is None else [s for s in metric.series.values() if selector(s.labels)]
            )
        return [series for series in self._all if selector(series.labels)]

    @property
    def bytes(self) -> int:
        """What it takes in memory, about."""
        return self._bytes

    @property
    def series(self) -> int:
        """How many series are kept, stale ones included."""
        return len(self._all)

    @property
    def samples(self) -> int:
        """How many samples are kept."""
        return sum(series.samples for series in self._all)

    def _metric(self, name: str) -> "_Metric | None":
        try:
            return self._metrics[name]
        except KeyError:
            needs = [need for need in self._needs if _may_match(need.selector, name)]
            found = self._metrics[name] = _Metric(needs) if needs else None
            return found

    def _keep(self, labels: Labels, value: float, source: Hashable) -> None:
        metric = self._metric(value_of(labels, NAME))
        if metric is not None and (series := self._series(metric, labels)) is not None:
            self._add(series, value, source)

    def _series(self, metric: "_Metric", labels: Labels) -> StoredSeries | None:
        try:
            return metric.series[labels]
        except KeyError:
            reaches = [need.reach for need in metric.needs if need.selector(labels)]
            if not reaches:
                return None
            series = StoredSeries(labels, self._timeline, max(reaches))
            self._check(series.bytes)
            self._bytes += series.bytes
            metric.series[labels] = series
            self._all.append(series)
            return series

    def _add(self, series: StoredSeries, value: float, source: Hashable) -> None:
        series.add(self._tick, value)
        if not series.live:
            series.live = True
            series.recorded = source is not _COLLECTED
            self._sources[source].append(series)

    def _finish(self, source: Hashable) -> None:
        tick = self._tick
        live = self._sources[source]
        self._finished.add(source)
        gone = [series for series in live if series.seen != tick]
        for series in gone:
            series.gap(tick, STALE)
            series.live = False
        if gone:
            self._sources[source] = [series for series in live if series.live]

    def _abandon(self) -> None:
        for source in [source for source in self._sources if source not in self._finished]:
            self.hold(source)

    def _forget(self) -> None:
        now = self._timeline.times[-1]
        self._timeline.forget(self._timeline.since(now - max(self._reach, LOOKBACK)))
        kept = []
        for series in self._all:
            before = self._timeline.since(now - series.reach)
            if series.forget(before):
                metric = self._metrics[value_of(series.labels, NAME)]
                assert metric is not None
                del metric.series[series.labels]
                metric.known.clear()
            else:
                kept.append(series)
        self._all = kept
        self._bytes = sum(series.bytes for series in kept)

    def _check(self, more: int) -> None:
        if self._limit is not None and self._bytes + more > self._limit:
            raise FullError(f"its samples would take more than {self._limit} bytes")


class _Metric:
    """The series of one metric that are kept."""

    __slots__ = ("known", "needs", "series")

    def __init__(self, needs: list[Need]) -> None:
        self.needs = needs
        self.series: dict[Labels, StoredSeries] = {}
        self.known: dict[Pairs, StoredSeries | None] = {}


def _may_match(selector: Selector, name: str) -> bool:
    if selector.metric:
        return selector.metric == name
    return all(matcher(name) for matcher in selector.matchers if matcher.name == NAME)

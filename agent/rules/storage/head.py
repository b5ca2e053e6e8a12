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

from collections.abc import Iterable, Sequence

from agent.rules.promql.budget import Budget
from agent.rules.promql.labels import NAME, Labels, of_series
from agent.rules.promql.labels import value as value_of
from agent.rules.promql.plan import Need
from agent.rules.promql.syntax.matchers import Selector
from agent.rules.promql.values import LOOKBACK, Vector, same
from agent.rules.storage.index import MetricSeries, SeriesIndex
from agent.rules.storage.series import STALE, UNKNOWN, StoredSeries
from agent.rules.storage.snapshot import Snapshot
from agent.rules.storage.timeline import Timeline
from collectors.base.sample import Sample
from plimsoll.text import SentenceError

_TURNS = 16  # ticks in which each series has its turn at dropping what is too old
_REMEMBERED = 256  # ticks for which label sets that nobody needs are remembered
_COLLECTED = ""  # the source of what is not a rule's result


class FullError(SentenceError):
    """A group's history would take more memory than it may. It is of no use afterwards: drop it and stop the group."""


class Head:
    """The storage of one rule group (a `values.Storage`). Not for several threads at once."""

    def __init__(
        self, needs: Iterable[Need], *, limit: int | None = None, budget: Budget | None = None
    ) -> None:
        """`limit`: bytes that it may take, about. `budget`: checked for each series that is new; LimitError as it raises it."""
        needs = tuple(needs)
        self._limit = limit
        self._budget = budget or Budget()
        self._reach = max([LOOKBACK, *(need.reach for need in needs)])
        self._timeline = Timeline()
        self._kept = SeriesIndex(needs)
        self._all: list[StoredSeries] = []
        self._bytes = 0
        self._tick = -1
        self._open = False
        self._sources: dict[str, list[StoredSeries]] = {_COLLECTED: []}
        self._finished: set[str] = set()

    def needs(self, name: str) -> bool:
        """Whether some selector may match a series of this metric."""
        return self._kept.metric(name) is not None

    def begin(self, time: int) -> None:
        """A tick at this time (ms, later than the one before, else ValueError). FullError if memory is used up.

        If the tick before was not ended, nothing is known of what had not come by then.
        """
        if self._open:
            self._abandon()
        self._check(0)
        self._tick = self._timeline.push(time)
        self._open = True
        self._finished.clear()

    def add_family(self, samples: Iterable[Sample]) -> None:
        """What was collected of a metric, labels in the exporter's own order. FullError if memory is used up.

        A series that comes twice within a tick, here or anywhere else, counts as it came first.
        """
        tick = self._tick
        name, metric = "", None
        for sample_name, pairs, value in samples:
            if sample_name != name:
                name, metric = sample_name, self._kept.metric(sample_name)
            if metric is None:
                continue
            try:
                series = metric.known[pairs]
            except KeyError:
                series = self._series(metric, of_series(name, pairs))
                metric.remember(pairs, series)
            if series is None:
                continue
            if value == series.value and (value or same(value, series.value)):
                series.seen = tick
            else:
                self._add(series, value, _COLLECTED)

    def add(self, labels: Labels, value: float) -> None:
        """One series that was collected, or is another group's result. FullError if memory is used up."""
        self._keep(labels, value, _COLLECTED)

    def settle(self) -> None:
        """All that was collected has been added: what did not come is stale from this tick on."""
        self._finish(_COLLECTED)

    def record(self, rule: str, vector: Vector) -> None:
        """The results of a rule at this tick; what it yielded before and does not now is stale. FullError as above.

        `rule`: what tells it from the others of its group, in the next run of the agent too; not empty.
        """
        self._sources.setdefault(rule, [])
        for labels, value in vector:
            self._keep(labels, value, rule)
        self._finish(rule)

    def hold(self, rule: str) -> None:
        """Nothing is known of a rule's results at this tick."""
        for series in self._sources.get(rule, ()):
            if series.value is not None and series.seen != self._tick:
                series.gap(self._tick, UNKNOWN)
        self._finished.add(rule)

    def end(self) -> None:
        """Close the tick: results of rules that had no say are stale, and samples that are too old are dropped."""
        for source in self._sources.keys() - self._finished:
            self._finish(source)
        self._close()

    def select(self, selector: Selector) -> Sequence[StoredSeries]:
        """See `values.Storage`; those that are stale are among them as long as a range may reach them."""
        return self._kept.select(selector)

    def snapshot(self) -> Snapshot:
        """A copy of all there is. A tick that was begun but not ended is broken off."""
        if self._open:
            self._abandon()
        found = [series.snapshot() for series in self._all]
        return Snapshot(self._timeline.base, self._timeline.times[:], tuple(filter(None, found)))

    def restore(self, snapshot: Snapshot) -> None:
        """Begin with what another history held, as far as some selector matches; before the first tick, else ValueError.

        The other one's results count as those of the rules of the same name here. FullError if they take too much memory.
        """
        if self._tick >= 0:
            raise ValueError("a history that has begun cannot take over another one")
        self._timeline.restore(snapshot.base, snapshot.times)
        self._tick = self._timeline.latest
        for saved in snapshot.series:
            metric = self._kept.metric(value_of(saved.labels, NAME))
            if metric is None or (series := self._series(metric, saved.labels)) is None:
                continue
            series.restore(saved)
            if series.live:
                self._sources.setdefault(saved.source, []).append(series)
            self._bytes -= series.bytes
            self._bytes += series.measure()
            self._check(0)

    @property
    def bytes(self) -> int:
        """What it takes in memory, about; as of the last ticks."""
        return self._bytes + self._timeline.bytes + self._kept.bytes

    @property
    def series(self) -> int:
        """How many series are kept, stale ones included."""
        return len(self._all)

    @property
    def samples(self) -> int:
        """How many samples are kept, those included that are too old but not yet dropped. Costs some time."""
        return sum(series.samples for series in self._all)

    def _keep(self, labels: Labels, value: float, source: str) -> None:
        metric = self._kept.metric(value_of(labels, NAME))
        if metric is not None and (series := self._series(metric, labels)) is not None:
            self._add(series, value, source)

    def _series(self, metric: MetricSeries, labels: Labels) -> StoredSeries | None:
        series = metric.series.get(labels)
        if series is None:
            self._budget.check()
        if series is None and (reach := metric.reach(labels)) is not None:
            series = StoredSeries(labels, self._timeline, reach)
            self._check(series.bytes)
            self._bytes += series.bytes
            self._all.append(series)
            metric.add(series)
        return series

    def _add(self, series: StoredSeries, value: float, source: str) -> None:
        series.add(self._tick, value)
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
        if self._tick % _REMEMBERED == 0:
            for metric in self._kept:
                metric.forget_unneeded()

    def _forget(self, now: int) -> None:
        """Let one series in so many drop what is too old, and look at its size again."""
        self._timeline.forget(self._timeline.since(now - self._reach))
        oldest: dict[int, int] = {}
        empty = set[str]()
        for series in self._all[self._tick % _TURNS :: _TURNS]:
            reach = series.reach
            if reach not in oldest:
                oldest[reach] = self._timeline.since(now - reach)
            self._bytes -= series.bytes
            if series.forget(oldest[reach]):
                empty.add(value_of(series.labels, NAME))
            else:
                self._bytes += series.measure()
        if empty:
            self._forget_empty(empty)

    def _forget_empty(self, names: set[str]) -> None:
        self._all = [series for series in self._all if series.starts]
        for name in names:
            if metric := self._kept.metric(name):
                metric.forget_empty()

    def _check(self, more: int) -> None:
        if self._limit is not None and self.bytes + more > self._limit:
            raise FullError(f"its samples would take more than {self._limit} bytes")

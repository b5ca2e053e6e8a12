"""Series on one timeline, with their index and approximate size: the common part of `Head` and `SharedHead`."""

import math
from collections.abc import Callable, Sequence

from agent.rules.promql.budget import Budget
from agent.rules.promql.labels import NAME, Labels
from agent.rules.promql.labels import value as value_of
from agent.rules.promql.syntax.matchers import Selector
from agent.rules.promql.values import LOOKBACK
from agent.rules.storage.index import MetricSeries, SeriesIndex
from agent.rules.storage.series import RUN, StoredSeries
from agent.rules.storage.snapshot import Snapshot
from agent.rules.storage.timeline import Timeline
from plimsoll.text import SentenceError

_TURNS = 16  # ticks in which each series is checked once for samples to drop
_REMEMBERED = 256  # ticks for which label sets of unneeded series are cached


class FullError(SentenceError):
    """Samples would exceed their memory limit; the group that needs them has to be stopped."""


class SeriesStore:
    """Series with their samples. One thread at a time."""

    def __init__(self, index: SeriesIndex, *, budget: Budget | None = None) -> None:
        """`budget`: checked for each new series; its LimitError is passed on."""
        self.limit: float = math.inf
        """Approximate bytes that the store may take; more raises FullError."""
        self._budget = budget or Budget()
        self._reach = LOOKBACK
        self._timeline = Timeline()
        self._index = index
        self._all: list[StoredSeries] = []
        self._bytes = 0
        self._tick = -1

    def select(self, selector: Selector) -> Sequence[StoredSeries]:
        """See `values.Storage`. Includes stale series while a range may reach them."""
        return self._index.select(selector)

    @property
    def bytes(self) -> int:
        """Return the approximate memory in bytes, as of the last ticks."""
        return self._bytes + self._timeline.bytes + self._index.bytes

    @property
    def series(self) -> int:
        """Return the number of series, including stale ones."""
        return len(self._all)

    @property
    def samples(self) -> int:
        """Return the number of samples, including old ones not dropped yet. Iterates over all series."""
        return sum(series.samples for series in self._all)

    def _snapshot(self, needs_metric: Callable[[str], bool] = lambda _: True) -> Snapshot:
        found = [
            series.snapshot() for series in self._all if needs_metric(value_of(series.labels, NAME))
        ]
        return Snapshot(self._timeline.base, self._timeline.times[:], tuple(filter(None, found)))

    def _new(self, metric: MetricSeries, labels: Labels, reach: int) -> StoredSeries:
        """Add a series. Raises FullError, before it is made, if there is no room for it."""
        series = StoredSeries(labels, self._timeline, reach)
        self.check(series.bytes)
        self._bytes += series.bytes
        self._all.append(series)
        metric.add(series)
        return series

    def _sample(self, series: StoredSeries, value: float) -> None:
        """Add a sample at the current tick, and count the memory of a new run."""
        before = len(series.starts)
        series.add(self._tick, value)
        if len(series.starts) > before:
            series.bytes += RUN
            self._bytes += RUN

    def _measure(self, series: StoredSeries) -> None:
        self._bytes -= series.bytes
        self._bytes += series.measure()

    def _forget(self, now: int) -> None:
        """Drop old samples of a part of the series, and update their size."""
        timeline = self._timeline
        # Without a series, no sample needs earlier ticks.
        timeline.forget(timeline.since(now - self._reach) if self._all else self._tick)
        oldest: dict[int, int] = {}
        empty = set[str]()
        for series in self._all[self._tick % _TURNS :: _TURNS]:
            reach = series.reach
            if reach not in oldest:
                oldest[reach] = timeline.since(now - reach)
            self._bytes -= series.bytes
            if series.forget(oldest[reach]):
                empty.add(value_of(series.labels, NAME))
            else:
                self._bytes += series.measure()
        if empty:
            self._all = [series for series in self._all if series.starts]
            self._index.forget_empty(empty)
        if self._tick % _REMEMBERED == 0:
            self._index.forget_unneeded()

    def check(self, more: int = 0) -> None:
        """Raise FullError if so many bytes more would exceed the limit."""
        if self.bytes + more > self.limit:
            left = max(round(self.limit), 0)
            raise FullError(f"samples would take more than {left} bytes, all that is left")

"""A storage filled sample by sample, for expressions over a recorded exposition and for tests.

It keeps all samples forever. The running agent uses `Head`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

from agent.rules.promql.labels import NAME, Labels, value
from agent.rules.promql.syntax.matchers import Selector
from agent.rules.promql.values import Series, Window, same

Mark = float | None
"""A sample's value; None marks the series as stale, as Prometheus does when a series disappears from a scrape."""


class MemorySeries:
    """One series with its samples in order of time."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self._times: list[int] = []
        self._marks: list[Mark] = []

    def add(self, time: int, mark: Mark) -> None:
        """Add a sample. Raises ValueError if it is not later than the series' last one."""
        if self._times and time <= self._times[-1]:
            raise ValueError(f"{dict(self.labels)}: {time} does not come after {self._times[-1]}")
        self._times.append(time)
        self._marks.append(mark)

    def at(self, time: int, after: int) -> tuple[int, float] | None:
        """Return time and value of the latest sample not later than `time`; None if that is not later than `after`, or a stale mark."""
        index = bisect_right(self._times, time) - 1
        if index < 0 or self._times[index] <= after or (mark := self._marks[index]) is None:
            return None
        return self._times[index], mark

    def window(self, start: int, end: int) -> Window | None:
        """Return the samples from `start` to `end`, both inclusive, without stale marks; None if there are none."""
        first, behind = bisect_left(self._times, start), bisect_right(self._times, end)
        times: list[int] = []
        levels: list[float] = []
        repeats: list[int] = []
        for index in range(first, behind):
            if (mark := self._marks[index]) is None:
                continue
            times.append(self._times[index])
            if levels and same(levels[-1], mark):
                repeats[-1] += 1
            else:
                levels.append(mark)
                repeats.append(1)
        return Window(times, levels, repeats) if times else None


class MemoryStorage:
    """Series by label set and by metric name."""

    def __init__(self, samples: Mapping[Labels, Iterable[tuple[int, Mark]]] | None = None) -> None:
        """`samples`: (ms, value or None) in order of time for each series. Raises ValueError if they are out of order."""
        self._series: dict[Labels, MemorySeries] = {}
        self._named: dict[str, list[MemorySeries]] = {}
        for labels, marks in (samples or {}).items():
            for time, mark in marks:
                self.add(labels, time, mark)

    def add(self, labels: Labels, time: int, mark: Mark) -> None:
        """Add a sample. Raises ValueError if it is not later than its series' last one."""
        if (series := self._series.get(labels)) is None:
            series = self._series[labels] = MemorySeries(labels)
            self._named.setdefault(value(labels, NAME), []).append(series)
        series.add(time, mark)

    def select(self, selector: Selector) -> Sequence[Series]:
        """Return the series that a selector matches, in order of arrival."""
        candidates = (
            self._named.get(selector.metric, ()) if selector.metric else self._series.values()
        )
        return [series for series in candidates if selector(series.labels)]

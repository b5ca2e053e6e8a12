"""Recorded expositions, with or without timestamps, and the storage that they are parsed into.

It accepts more than the agent exports: the text format and OpenMetrics, exemplars, any type and unit, and several
timestamps per series. The series of a sample have the grammar of all recordings, `plimsoll.recording.series`.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.rules.promql import labels as label_sets
from agent.rules.promql.labels import NAME, Labels
from agent.rules.promql.syntax.matchers import Selector
from agent.rules.promql.syntax.printer import series
from agent.rules.promql.values import Series, Window, same
from collectors.shared.formats.numerals import parse_float
from plimsoll.recording import series as recorded
from plimsoll.recording.series import SERIES
from plimsoll.text import SentenceError, shown

Mark = float | None
"""A sample's value; None marks the series as stale, as Prometheus does when a series disappears from a scrape."""
_SAMPLE = re.compile(
    rf"{SERIES}[ \t]*+(?P<value>[^ \t{{}}#]++)(?:[ \t]++(?P<time>[^ \t#]++))?[ \t]*+(?P<exemplar>#.*)?"
)
_WHOLE = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)
_LONGEST = 10**14
"""Milliseconds of the year 5138, so that seconds or nanoseconds are not mistaken for ms."""


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
    """Series by label set and by metric name, filled sample by sample. It keeps all samples; the running agent uses `Head`."""

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
            self._named.setdefault(label_sets.value(labels, NAME), []).append(series)
        series.add(time, mark)

    def select(self, selector: Selector) -> Sequence[Series]:
        """Return the series that a selector matches, in order of arrival."""
        candidates = (
            self._named.get(selector.metric, ()) if selector.metric else self._series.values()
        )
        return [series for series in candidates if selector(series.labels)]


class ExpositionError(SentenceError):
    """Text is not an exposition; the message has the line number."""


@dataclass(frozen=True, slots=True)
class Exposition:
    """The samples of an exposition, and the latest timestamp in ms; None if there are no timestamps."""

    samples: tuple[tuple[Labels, int | None, float], ...]
    latest: int | None

    def listed(self, now: int) -> MemoryStorage:
        """Return the samples in order of time; those without a timestamp get `now`. Raises ExpositionError for duplicates."""
        found: dict[Labels, dict[int, float]] = {}
        for labels, time, value in self.samples:
            of_series = found.setdefault(labels, {})
            at = now if time is None else time
            if at in of_series:
                raise ExpositionError(f"twice at one time: {series(labels)}")
            of_series[at] = value
        return MemoryStorage({labels: sorted(times.items()) for labels, times in found.items()})


def parse(text: str) -> Exposition:
    """Parse an exposition. If it ends with `# EOF` it is OpenMetrics, with times in seconds."""
    lines = text.split("\n")
    openmetrics = next((line for line in reversed(lines) if line.strip()), "").strip() == "# EOF"
    samples = []
    metric_type = "untyped"
    for number, line in enumerate(lines, start=1):
        if not (start := line.strip()) or start.startswith("#"):
            metric_type = _type(start) or metric_type
            continue
        try:
            samples.append(_sample(start, metric_type, openmetrics))
        except ValueError as error:
            raise ExpositionError(f"line {number}: {error}") from error
    latest = max((time for _, time, _ in samples if time is not None), default=None)
    return Exposition(tuple(samples), latest)


def _type(comment: str) -> str | None:
    words = comment.split()
    return words[3] if len(words) == 4 and words[:2] == ["#", "TYPE"] else None


def _sample(line: str, metric_type: str, openmetrics: bool) -> tuple[Labels, int | None, float]:
    match = _SAMPLE.fullmatch(line)
    if match is None:
        raise ValueError(f"not a sample: {shown(line)}")
    name, pairs = recorded.named(match["name"], match["labels"])
    time = _milliseconds(match["time"], openmetrics) if match["time"] else None
    labels = label_sets.of_series(name, tuple(pairs.items()), metric_type)
    return labels, time, parse_float(match["value"])


def _milliseconds(text: str, openmetrics: bool) -> int:
    if openmetrics and math.isfinite(seconds := parse_float(text)):
        time = round(1000 * seconds)
    elif _WHOLE.fullmatch(text):
        time = int(text)
    else:
        raise ValueError(f"not a time: {shown(text)}")
    if abs(time) > _LONGEST:
        raise ValueError(f"not a time of ours: {shown(text)}")
    return time

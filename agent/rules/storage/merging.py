"""Moves samples from one timeline to another: of a snapshot, to a store that has ticks and samples of its own."""

from array import array
from collections.abc import Sequence

from agent.rules.promql.values import same
from agent.rules.storage.series import UNKNOWN, StoredSeries
from agent.rules.storage.snapshot import SeriesSnapshot, Snapshot
from agent.rules.storage.timeline import Timeline

_ABSENT = -1


def extend(timeline: Timeline, saved: Snapshot) -> Sequence[int]:
    """Add ticks of a snapshot before those of a timeline. Returns, for each tick of the snapshot, the timeline's; -1 for none."""
    if not timeline.times:
        timeline.times = saved.times[:]
    elif saved.times:
        first = timeline.times[0]
        timeline.prepend(array("q", [time for time in saved.times if time < first]))
    numbers = {time: timeline.base + place for place, time in enumerate(timeline.times)}
    return [numbers.get(time, _ABSENT) for time in saved.times]


def prepend(
    series: StoredSeries, saved: SeriesSnapshot, base: int, ticks: Sequence[int], latest: int
) -> None:
    """Add the samples of a snapshot that are older than those of the series.

    `base`: the snapshot's first tick. `ticks`: as `extend` returns it. `latest`: the timeline's latest tick.
    """
    end = series.starts[0] if series.starts else latest + 1
    runs = _Runs()
    for place, (start, value, gap) in enumerate(_stored(saved)):
        until = saved.starts[place + 1] if place + 1 < len(saved.starts) else base + len(ticks)
        for number in range(max(start, base) - base, max(until, base) - base):
            if ticks[number] >= end:
                break
            if ticks[number] != _ABSENT:
                runs.add(ticks[number], value, gap)
    runs.end(end)
    if len(runs.gaps) == len(runs.starts):  # no sample
        return
    fresh = not series.starts
    series.starts, series.values = runs.starts + series.starts, runs.values + series.values
    series.gaps = (runs.gaps + (series.gaps or array("I"))) or None
    if fresh:
        series.settle(latest)


def _stored(saved: SeriesSnapshot) -> list[tuple[int, float, bool]]:
    gaps = frozenset(saved.gaps)
    return [
        (start, value, start in gaps)
        for start, value in zip(saved.starts, saved.values, strict=True)
    ]


class _Runs:
    """Runs on a timeline, of which some ticks may have no sample."""

    def __init__(self) -> None:
        self.starts, self.values, self.gaps = array("I"), array("d"), array("I")
        self._next = 0
        self._in_gap = True

    def add(self, tick: int, value: float, gap: bool) -> None:
        """Add a sample, or a gap of the kind `value`, later than all before."""
        self.end(tick)
        if not self.starts and gap:
            return
        if not self.starts or gap != self._in_gap or not same(value, self.values[-1]):
            self._begin(tick, value, gap)
        self._next = tick + 1

    def end(self, tick: int) -> None:
        """Ticks from the last sample to this one are unknown."""
        if self._next < tick and not self._in_gap:
            self._begin(self._next, UNKNOWN, gap=True)

    def _begin(self, tick: int, value: float, gap: bool) -> None:
        self.starts.append(tick)
        self.values.append(value)
        if gap:
            self.gaps.append(tick)
        self._in_gap = gap

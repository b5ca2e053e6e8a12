"""One series in memory, run-length encoded: a counter that never changes takes the same memory for a minute and for a day.

A run begins at a tick and ends where the next one begins. Where the series was absent or unknown there is a run that is a
gap.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from itertools import pairwise

from agent.rules.promql.labels import Labels
from agent.rules.promql.values import Window, same
from agent.rules.storage.snapshot import SeriesSnapshot
from agent.rules.storage.timeline import ABSENT, Timeline

STALE, UNKNOWN = 0.0, 1.0
"""Kinds of gaps in `values`: the series was absent, or it is unknown whether it was."""

# Up to this fraction of what is kept may be too old: dropping copies the rest.
_SLACK = 8
# Bytes, measured: a series without samples, with its entries in lists and dicts; a label, besides its text; a run, with
# the arrays' reserve.
_FIXED, _LABEL, RUN = 300, 135, 13


class StoredSeries:
    """One series of a group. `value`, `seen`, `live` and `starts`/`values` are written by the group's Head."""

    __slots__ = (
        "_fixed", "_timeline", "bytes", "gaps", "labels", "live", "reach", "seen", "source", "starts", "user",
        "value", "values",
    )  # fmt: skip

    def __init__(self, labels: Labels, timeline: Timeline, reach: int) -> None:
        self.labels = labels
        self.reach = reach
        """How long (ms) samples are kept."""
        self.starts = array("I")
        """The tick at which each run begins."""
        self.values = array("d")
        """The value of each run, or the kind of gap."""
        self.gaps: array[int] | None = None
        """Start ticks of the runs that are gaps; None if there are none."""
        self.value: float | None = None
        """The value of the latest run; None in a gap."""
        self.seen = -1
        """The latest tick with a sample."""
        self.live = False
        """False once the series is stale."""
        self.source = ""
        """The rule that recorded it; empty if it was collected."""
        self.user: Hashable = None
        """The group that is accounted for it, of those that share it."""
        self._timeline = timeline
        text = sum(len(name) + len(value) for name, value in labels)
        self._fixed = _FIXED + _LABEL * len(labels) + text
        self.bytes = self._fixed
        """Approximate memory in bytes, as of the last estimate."""

    def measure(self) -> int:
        """Update `bytes`."""
        gaps = 0 if self.gaps is None else 100 + 5 * len(self.gaps)
        self.bytes = self._fixed + RUN * len(self.starts) + gaps
        return self.bytes

    @property
    def samples(self) -> int:
        """Return the number of samples, including old ones not dropped yet."""
        return sum(
            until - since for since, until, _ in self._stretches(self._timeline.base, self.seen)
        )

    def add(self, tick: int, value: float) -> None:
        """Add a sample at the latest tick; a second one at the same tick is ignored."""
        if self.seen == tick and self.value is not None:
            return
        if self.value is None or not same(value, self.value):
            if self.starts and self.starts[-1] == tick:  # it was marked stale on this tick
                self._reopen()
            self.starts.append(tick)
            self.values.append(value)
            self.value = value
        self.seen = tick

    def _reopen(self) -> None:
        assert self.gaps is not None
        self.gaps.pop()
        self.starts.pop()
        self.values.pop()

    def gap(self, tick: int, kind: float) -> None:
        """Begin a gap at this tick, `STALE` or `UNKNOWN`."""
        if self.seen == tick:
            return
        if self.value is None and self.starts[-1] == tick:
            self._reopen()
        self.starts.append(tick)
        self.values.append(kind)
        if self.gaps is None:
            self.gaps = array("I")
        self.gaps.append(tick)
        self.value = None

    def at(self, time: int, after: int) -> tuple[int, float] | None:
        """See `values.Series`."""
        starts = self.starts
        timeline = self._timeline
        tick = timeline.upto(time)
        run = len(starts) - 1
        if run >= 0 and tick < starts[run]:
            run = bisect_right(starts, tick) - 1
        if run < 0:
            return None
        if self.gaps is not None and self._is_gap(starts[run]):
            if self.values[run] == STALE or run == 0:
                return None
            run -= 1  # the value known before
        last = starts[run + 1] - 1 if run + 1 < len(starts) else self.seen
        tick = min(tick, last)
        if tick < timeline.base:
            return None
        found = timeline.times[tick - timeline.base]
        return (found, self.values[run]) if found > after else None

    def window(self, start: int, end: int) -> Window | None:
        """See `values.Series`."""
        starts, timeline = self.starts, self._timeline
        if not starts:
            return None
        low, high = timeline.since(start), timeline.upto(end)
        if low < starts[0]:
            low = starts[0]
        if self.value is not None and high > self.seen:
            high = self.seen
        if low > high:
            return None
        if self.gaps is not None:
            return self._window_with_gaps(low, high)
        first = bisect_right(starts, low) - 1
        last = bisect_right(starts, high, first) if high < starts[-1] else len(starts)
        times = timeline.between(low, high)
        levels = self.values[first:last]
        return Window(times, levels, _repeats(low, starts[first + 1 : last], high))

    def _window_with_gaps(self, low: int, high: int) -> Window | None:
        base, ticks = self._timeline.base, self._timeline.times
        times = array("q")
        levels = array("d")
        repeats: list[int] = []
        for since, until, value in self._stretches(low, high):
            times += ticks[since - base : until - base]
            if levels and same(value, levels[-1]):
                repeats[-1] += until - since
            else:
                levels.append(value)
                repeats.append(until - since)
        return Window(times, levels, repeats) if levels else None

    def _stretches(self, low: int, high: int) -> list[tuple[int, int, float]]:
        """Return the runs between two ticks that are not gaps: first tick, tick after the last, value."""
        first = max(bisect_right(self.starts, low) - 1, 0)
        last = bisect_right(self.starts, high)
        starts = self.starts[first:last]
        if not starts:  # only a gap is left, after the last sample
            return []
        gaps = frozenset(self.gaps or ())
        ends = [*starts[1:], high + 1]
        return [
            (max(low, since), until, value)
            for since, until, value in zip(starts, ends, self.values[first:last], strict=True)
            if since not in gaps
        ]

    def snapshot(self) -> SeriesSnapshot | None:
        """Return a copy of the samples; None if there is only a gap."""
        base = self._timeline.base
        first = max(bisect_right(self.starts, base) - 1, 0)
        starts, gaps = self.starts[first:], array("I")
        if self.gaps is not None:
            gaps += self.gaps[bisect_left(self.gaps, starts[0]) :]
        if len(gaps) == len(starts):
            return None
        return SeriesSnapshot(self.labels, self.source, starts, self.values[first:], gaps)

    def restore(self, snapshot: SeriesSnapshot) -> None:
        """Take over a snapshot made on the same timeline, at its latest tick."""
        self.source = snapshot.source
        self.starts, self.values = snapshot.starts[:], snapshot.values[:]
        self.gaps = snapshot.gaps[:] or None
        self.settle(self._timeline.latest)

    def prepend(self, saved: SeriesSnapshot, base: int, ticks: Sequence[int], latest: int) -> None:
        """Add the samples of a snapshot that are older than those here.

        `base`: the snapshot's first tick. `ticks`: as `Timeline.prepend` returns it. `latest`: the timeline's latest tick.
        """
        end = self.starts[0] if self.starts else latest + 1
        gaps, runs = frozenset(saved.gaps), _Runs()
        ends = [*saved.starts[1:], base + len(ticks)]
        for start, until, value in zip(saved.starts, ends, saved.values, strict=True):
            for number in range(max(start, base) - base, max(until, base) - base):
                if ticks[number] >= end:
                    break
                if ticks[number] != ABSENT:
                    runs.add(ticks[number], value, start in gaps)
        runs.end(end)
        if len(runs.gaps) == len(runs.starts):  # no sample
            return
        fresh = not self.starts
        self.starts, self.values = runs.starts + self.starts, runs.values + self.values
        self.gaps = (runs.gaps + (self.gaps or array("I"))) or None
        if fresh:
            self.settle(latest)

    def settle(self, latest: int) -> None:
        """Take the state as of the latest tick from the runs; there is one at least."""
        if self.gaps and self.gaps[-1] == self.starts[-1]:
            self.live = self.values[-1] != STALE
            self.seen = self.starts[-1] - 1
        else:
            self.live = True
            self.value = self.values[-1]
            self.seen = latest

    def _is_gap(self, start: int) -> bool:
        gaps = self.gaps
        assert gaps is not None
        place = bisect_left(gaps, start)
        return place < len(gaps) and gaps[place] == start

    def forget(self, tick: int) -> bool:
        """Drop samples before this tick, once that is worthwhile. Returns whether nothing is left.

        The latest sample is kept unless the series is stale.
        """
        starts = self.starts
        if not self.live and starts and starts[-1] <= tick:
            del self.starts[:], self.values[:]
            self.gaps = None
        if not starts:
            return True
        old = bisect_right(starts, tick, 0, len(starts) - (self.value is None)) - 1
        if old > len(starts) // _SLACK:
            del self.starts[:old], self.values[:old]
            self._forget_gaps()
        return False

    def _forget_gaps(self) -> None:
        gaps = self.gaps
        if gaps is not None:
            del gaps[: bisect_left(gaps, self.starts[0])]
            if not gaps:
                self.gaps = None


def _repeats(low: int, starts: "array[int]", high: int) -> list[int]:
    """Return the number of ticks in each run of a contiguous range; `starts`: where all runs but the first begin."""
    if len(starts) == high - low:
        return [1] * (len(starts) + 1)
    return [until - since for since, until in pairwise((low, *starts, high + 1))]


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

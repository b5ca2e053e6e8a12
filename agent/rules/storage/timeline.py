"""The ticks of one store, shared by all its series: the times at which the sources were read.

A tick's number never changes, so series store it in four bytes. Times are in ms.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

ABSENT = -1
"""In place of a tick: there is none."""
_SLACK = 8  # up to this fraction of what is kept may be too old: dropping copies the rest


class Timeline:
    """Ascending times of ticks; the oldest are dropped."""

    __slots__ = ("_cached_tick", "_cached_time", "_cut", "_part", "base", "times")

    def __init__(self, base: int = 0) -> None:
        self.times = array("q")
        self.base = base
        """Number of the oldest tick kept."""
        self._cached_time: int | None = None
        self._cached_tick = 0
        self._cut = (0, -1)
        self._part = array("q")

    @property
    def bytes(self) -> int:
        """Return the approximate memory in bytes."""
        return 300 + 9 * len(self.times)

    @property
    def latest(self) -> int:
        """Return the number of the latest tick; `base` - 1 if there is none."""
        return self.base + len(self.times) - 1

    def push(self, time: int) -> int:
        """Add a tick and return its number. Raises ValueError if it is not later than the last one."""
        if self.times and time <= self.times[-1]:
            raise ValueError(f"a tick at {time} ms after one at {self.times[-1]} ms")
        self.times.append(time)
        self._cached_time = None
        return self.latest

    def restore(self, base: int, times: "array[int]") -> None:
        """Start with these ticks; `base`: the first one's number."""
        self.base, self.times = base, times[:]

    def prepend(self, times: "array[int]") -> Sequence[int]:
        """Add the earlier ones of these times, as many as there are numbers. Returns the tick at each of them; ABSENT for none."""
        if self.times:
            times_before = array("q", [time for time in times if time < self.times[0]])
            added = times_before[max(len(times_before) - self.base, 0) :]
            self.times = added + self.times
            self.base -= len(added)
            self._cached_time = None
            self._cut = (0, -1)
        else:
            self.times = times[:]
        ticks = {time: self.base + place for place, time in enumerate(self.times)}
        return [ticks.get(time, ABSENT) for time in times]

    def upto(self, time: int) -> int:
        """Return the number of the latest tick not later than this; less than `base` if there is none."""
        times = self.times
        if times and time >= times[-1]:  # the common case
            return self.base + len(times) - 1
        return self.base + bisect_right(times, time) - 1

    def since(self, time: int) -> int:
        """Return the number of the earliest tick not earlier than this; `latest` + 1 if there is none."""
        if time != self._cached_time:  # all series of a selector are queried for the same range
            self._cached_time, self._cached_tick = time, self.base + bisect_left(self.times, time)
        return self._cached_tick

    def between(self, low: int, high: int) -> "array[int]":
        """Return the times of existing ticks, both ends inclusive. Shared: do not modify."""
        cut = low, high
        if cut != self._cut:  # series without gaps share a range, and a day's is large
            self._cut, self._part = cut, self.times[low - self.base : high - self.base + 1]
        return self._part

    def forget(self, tick: int) -> None:
        """Drop ticks before this one, once that is worthwhile, and the cache of `between`."""
        self._cut, self._part = (0, -1), array("q")
        old = tick - self.base
        if old > len(self.times) // _SLACK:
            del self.times[:old]
            self.base += old
            self._cached_time = None

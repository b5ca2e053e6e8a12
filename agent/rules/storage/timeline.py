"""The ticks of one rule group: the moments at which its sources were read, shared by all its series.

A tick's number never changes while its group lives, so series may remember it in four bytes; times are milliseconds.
"""

from array import array
from bisect import bisect_left, bisect_right

_SLACK = (
    8  # one part in this many of what is kept may be too old: dropping costs a copy of the rest
)


class Timeline:
    """The times of ticks, rising, the oldest of which are dropped."""

    __slots__ = ("_answer", "_asked", "_cut", "_part", "base", "times")

    def __init__(self) -> None:
        self.times = array("q")
        self.base = 0
        """The number of the oldest tick that is kept."""
        self._asked: int | None = None
        self._answer = 0
        self._cut = (0, -1)
        self._part = array("q")

    @property
    def bytes(self) -> int:
        """What it takes in memory, about."""
        return 300 + 9 * len(self.times)

    @property
    def latest(self) -> int:
        """The number of the latest tick; one less than `base` where there is none."""
        return self.base + len(self.times) - 1

    def push(self, time: int) -> int:
        """The number of a new tick. ValueError if it is not later than the one before."""
        if self.times and time <= self.times[-1]:
            raise ValueError(f"a tick at {time} ms after one at {self.times[-1]} ms")
        self.times.append(time)
        self._asked = None
        return self.latest

    def restore(self, base: int, times: "array[int]") -> None:
        """Begin with these ticks, the first of which has this number."""
        self.base, self.times = base, times[:]

    def upto(self, time: int) -> int:
        """The number of the latest tick not later than this; less than `base` where there is none."""
        times = self.times
        if times and time >= times[-1]:  # nearly always
            return self.base + len(times) - 1
        return self.base + bisect_right(times, time) - 1

    def since(self, time: int) -> int:
        """The number of the earliest tick not earlier than this; one more than `latest` where there is none."""
        if time != self._asked:  # all series of a selector are asked for the same range
            self._asked, self._answer = time, self.base + bisect_left(self.times, time)
        return self._answer

    def between(self, low: int, high: int) -> "array[int]":
        """The times of ticks that there are, both ends included. Not to be changed: others are given the same array."""
        cut = low, high
        if (
            cut != self._cut
        ):  # series that are there all the time share a range, and a day's is large
            self._cut, self._part = cut, self.times[low - self.base : high - self.base + 1]
        return self._part

    def forget(self, tick: int) -> None:
        """Drop what is before this tick, once it is worth the trouble, and what `between` has at hand."""
        self._cut, self._part = (0, -1), array("q")
        old = tick - self.base
        if old > len(self.times) // _SLACK:
            del self.times[:old]
            self.base += old
            self._asked = None

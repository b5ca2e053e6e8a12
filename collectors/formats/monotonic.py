"""What counters grew by from look to look, where they may drop, vanish or be unreadable: for sums that never fall."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_PATIENCE = 3  # looks for which a counter that is not there is remembered: it may be on its way to another directory


@dataclass(slots=True)
class _Mark:
    """How far a counter has been followed."""

    last: int | None
    """Where it was counted up to; None before its first reading, if it was there before we were."""
    peak: int = 0
    """The most it ever said; above `last` only after it began anew."""
    missed: int = 0


class Increases(Generic[K]):
    """Follows counters by key. Nothing that happened before the first look counts, and nothing counts twice."""

    def __init__(self) -> None:
        self._marks: dict[K, _Mark] = {}
        self._looked = False

    def advance(self, now: Mapping[K, int | None]) -> dict[K, int]:
        """The increase of each counter that can be read now; None stands for one that is there and cannot be read.

        A counter that appears after the first look began at 0 in between, so all of it is increase.
        """
        for key in self._marks.keys() - now.keys():
            self._miss(key)
        grown: dict[K, int] = {}
        for key, value in now.items():
            mark = self._marks.get(key)
            if mark is None:
                mark = self._marks[key] = _Mark(last=0 if self._looked else None)
            mark.missed = 0
            if value is not None:
                grown[key] = _step(mark, value)
        self._looked = True
        return grown

    def _miss(self, key: K) -> None:
        mark = self._marks[key]
        mark.missed += 1
        if mark.missed >= _PATIENCE:
            del self._marks[key]


def _step(mark: _Mark, value: int) -> int:
    """Move a mark to a reading.

    A counter that fell by more than half began anew. One that fell less was read at a bad moment, and so was one that
    fell to the ground and is back where it was: both count on from there. Better to lose some than to make up a peak.
    """
    if mark.last is None:
        mark.last = mark.peak = value
        return 0
    if value >= mark.peak:
        growth = value - mark.peak
        mark.last = mark.peak = value
        return growth
    if mark.last < mark.peak or value * 2 < mark.peak:
        growth = max(0, value - mark.last)
        mark.last = value
        return growth
    return 0

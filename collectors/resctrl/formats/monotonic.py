"""Accumulates increases of counters that may drop, disappear or be unreadable, for sums that never decrease."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_PATIENCE = (
    3  # polls for which a missing counter is remembered: it may be moving to another directory
)


@dataclass(slots=True)
class _Mark:
    """The position up to which a counter was counted."""

    last: int | None
    """The value counted so far; None before the first reading of a counter that existed before the agent."""
    peak: int = 0
    """The maximum reading; above `last` only after a reset."""
    missed: int = 0


class Increases(Generic[K]):
    """Follows counters by key. Values before the first poll do not count, and nothing counts twice."""

    def __init__(self) -> None:
        self._marks: dict[K, _Mark] = {}
        self._looked = False

    def advance(self, now: Mapping[K, int | None]) -> dict[K, int]:
        """Return the increase of each readable counter; None: the counter exists but cannot be read.

        A counter that appears after the first poll started at 0 in between, so its whole value is an increase.
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
    """Advance a mark to a reading.

    A counter that dropped by more than half was reset. One that dropped less was misread, as was one that dropped to zero and
    returned to its value: both continue from there. It is better to lose a little than to invent a spike.
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

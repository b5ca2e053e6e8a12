"""Schedule of rule groups, each at its interval."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class _Due:
    interval: int
    due: int


class Schedule(Generic[Key]):
    """Times are ms of one clock. Groups with the same interval are due together, so that sources are read once for all."""

    def __init__(self, intervals: Mapping[Key, int], now: int) -> None:
        """`intervals`: by group. All groups are due at once."""
        self._turns = {name: _Due(interval, now) for name, interval in intervals.items()}

    def set(self, name: Key, interval: int, now: int) -> None:
        """Add a group or change its interval; it is due at the next multiple of that, if not before."""
        turn = self._turns.setdefault(name, _Due(0, _next(now, interval)))
        if interval != turn.interval:
            turn.interval = interval
            turn.due = min(turn.due, _next(now, interval))

    def remove(self, name: Key) -> None:
        """Remove a group."""
        del self._turns[name]

    @property
    def next(self) -> int | None:
        """Return when the next group is due; None without groups."""
        return min((turn.due for turn in self._turns.values()), default=None)

    def take(self, now: int) -> Mapping[Key, int]:
        """Return the due groups with the number of evaluations each has missed, and schedule their next one."""
        missed = {}
        for name, turn in self._turns.items():
            if turn.due <= now:
                missed[name] = (now - turn.due) // turn.interval
                turn.due = _next(now, turn.interval)
        return missed


def _next(now: int, interval: int) -> int:
    """Return the next multiple of the interval."""
    return (now // interval + 1) * interval

"""Schedule of rule groups: at their own interval, or every second while a subscriber uses their results."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from agent.rules.groups.file import SHORTEST


@dataclass(slots=True)
class _Due:
    interval: int
    due: int


class Schedule:
    """Times are ms of one clock. Groups with the same interval are due together, so that sources are read once for all."""

    def __init__(self, intervals: Mapping[str, int], now: int) -> None:
        """`intervals`: by group. All groups are due at once."""
        self._own = dict(intervals)
        self._turns = {name: _Due(interval, now) for name, interval in intervals.items()}

    def interval(self, name: str) -> int:
        """Return a group's current interval."""
        return self._turns[name].interval

    def accelerate(self, names: Collection[str], now: int) -> None:
        """Evaluate these groups every second, the others at their own interval."""
        for name, turn in self._turns.items():
            interval = SHORTEST if name in names else self._own[name]
            if interval != turn.interval:
                turn.interval = interval
                turn.due = min(turn.due, _next(now, interval))

    @property
    def next(self) -> int | None:
        """Return when the next group is due; None without groups."""
        return min((turn.due for turn in self._turns.values()), default=None)

    def take(self, now: int) -> Mapping[str, int]:
        """Return the due groups with the number of evaluations each has missed, and schedule their next one."""
        found = {}
        for name, turn in self._turns.items():
            if turn.due <= now:
                found[name] = (now - turn.due) // turn.interval
                turn.due = _next(now, turn.interval)
        return found


def _next(now: int, interval: int) -> int:
    """Return the next multiple of the interval."""
    return (now // interval + 1) * interval

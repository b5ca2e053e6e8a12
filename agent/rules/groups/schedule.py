"""When each rule group is due: at its own interval, or each second while somebody subscribes to what it records."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from agent.rules.groups.file import SHORTEST


@dataclass(slots=True)
class _Due:
    interval: int
    due: int


class Schedule:
    """Times are milliseconds on one clock. All groups of an interval are due together, so that sources are read once for all."""

    def __init__(self, intervals: Mapping[str, int], now: int) -> None:
        """`intervals` by group. All are due at once, as nothing is known before."""
        self._own = dict(intervals)
        self._turns = {name: _Due(interval, now) for name, interval in intervals.items()}

    def interval(self, name: str) -> int:
        """How often this group is evaluated now."""
        return self._turns[name].interval

    def accelerate(self, names: Collection[str], now: int) -> None:
        """These groups are wanted each second, the others at their own pace."""
        for name, turn in self._turns.items():
            interval = SHORTEST if name in names else self._own[name]
            if interval != turn.interval:
                turn.interval = interval
                turn.due = min(turn.due, _next(now, interval))

    @property
    def next(self) -> int | None:
        """When a group is due; None where there are no groups."""
        return min((turn.due for turn in self._turns.values()), default=None)

    def take(self, now: int) -> Mapping[str, int]:
        """The groups that are due, which then wait for their next turn; with how many turns of theirs went by unused."""
        found = {}
        for name, turn in self._turns.items():
            if turn.due <= now:
                found[name] = (now - turn.due) // turn.interval
                turn.due = _next(now, turn.interval)
        return found


def _next(now: int, interval: int) -> int:
    """The next multiple of the interval."""
    return (now // interval + 1) * interval

"""Schedule of rule groups: each at its interval, and costly ones in turns, so that the others keep theirs."""

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from agent.rules.groups import dependencies
from agent.rules.groups.members import Member, Members, Part
from agent.rules.groups.tick import FamiliesByMetric

Key = TypeVar("Key", bound=Hashable)
LONGEST_STEP = 0.25
"""Seconds of processor time after which the other due groups are left to the next step."""
_SAMPLE_SECONDS = 1e-5
"""Estimated processor time of a group's first evaluation, for each collected sample that it may need."""


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


def ordered(due: Sequence[Part], members: Members, families: FamiliesByMetric) -> Sequence[Part]:
    """Return due groups in the order of their evaluation.

    That is `due`, where groups follow those that they depend on, unless these take longer than a step: then first the cheapest
    ones, which together take at most half of it, and of the others those first that were evaluated the longest ago.
    """
    costs = {part: _cost(members[part], families) for part in due}
    if sum(costs.values()) <= LONGEST_STEP:
        return due
    cheapest = sorted(due, key=lambda part: costs[part])
    sums = itertools.accumulate(costs[part] for part in cheapest)
    light = {part for part, total in zip(cheapest, sums, strict=True) if total <= LONGEST_STEP / 2}
    costly = [part for part in due if part not in light]
    costly.sort(key=lambda part: members[part].timestamp or 0.0)
    return [*(part for part in due if part in light), *costly]


def _cost(member: Member, families: FamiliesByMetric) -> float:
    """Return the processor seconds of the last evaluation, or an estimate."""
    if member.timestamp is not None:
        return member.cost
    names = {need.selector.metric for need in dependencies.needs(member.running.group)}
    needed = families.keys() if "" in names else names & families.keys()
    return _SAMPLE_SECONDS * sum(len(f.samples) for name in needed for f in families[name])

"""Failing rules and problems for the reports of one stream: all with a full report, later only when they have changed."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from collectors.interface.sample import NodeCondition, NodeEvent
from plimsoll.ratelimit import TokenBucket
from wire.failing_rules import FailingRule
from wire.problems import MOST_EVENTS, ProblemCondition, ProblemEvent, Problems

_PAUSE, _BURST = 30.0, 3
"""Average seconds between two changes sent, so that a rule that fails every other time costs little; and a burst of changes."""


class ChangedFailingRules:
    """What of the failing rules was sent."""

    def __init__(self, read: Callable[[], Mapping[FailingRule, float]]) -> None:
        self._read = read
        self._sent: Collection[FailingRule] = frozenset()
        self._changes = TokenBucket(1 / _PAUSE, _BURST)

    def take(self, now: float, *, full: bool) -> Mapping[FailingRule, float] | None:
        """Return what to send with a report at `now` (seconds), or None.

        A full report without failing rules says that there are none.
        """
        failing = self._read()
        if not full and (failing.keys() == self._sent or not self._changes.take_now(now)):
            return None
        self._sent = failing.keys()
        return failing if failing or not full else None


_EVENTS_PAUSE, _EVENTS_BURST = 5.0, 5
"""Average seconds between two reports with events, and a burst: they are aggregated meanwhile."""
_RECENT = 300.0
"""Seconds after which an event is not reported to an evaluator that was not connected."""


class ChangedProblems:
    """What of the node's problems was sent to one evaluator. Conditions are sent at once, events at a limited rate."""

    def __init__(
        self,
        read: Callable[[], tuple[Sequence[NodeCondition], Sequence[NodeEvent]]],
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`read` returns the conditions, and the last event of each source and reason; `wall` Unix seconds."""
        self._read = read
        self._wall = wall
        self._conditions: Sequence[NodeCondition] = ()
        self._times: dict[tuple[str, str], int] = {}
        self._rate = TokenBucket(1 / _EVENTS_PAUSE, _EVENTS_BURST)

    def take(self, now: float, *, full: bool) -> Problems | None:
        """Return what to send with a report at `now` (seconds), or None."""
        found, events = self._read()
        conditions = tuple(found)
        new = () if full else self._new(events, now)
        changed = conditions != self._conditions
        self._conditions = conditions
        if not new and not changed and not (full and conditions):
            return None
        return Problems(tuple(ProblemCondition(*c) for c in conditions), new)

    def _new(self, events: Sequence[NodeEvent], now: float) -> tuple[ProblemEvent, ...]:
        """Return the events that were not sent, if the rate permits it."""
        oldest = self._wall() - _RECENT
        new = [e for e in events if e.times > self._times.get(e[:2], 0) and e.at >= oldest]
        if not new or not self._rate.take_now(now):
            return ()
        found = tuple(
            ProblemEvent(e.source, e.reason, e.message, e.times - self._times.get(e[:2], 0))
            for e in new
        )
        self._times = {e[:2]: e.times for e in events}
        return found[-MOST_EVENTS:]

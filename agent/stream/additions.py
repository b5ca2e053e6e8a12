"""What the reports of one stream have beside readings, only when it is new: names of series, failing rules and problems.

Names are looked up in the background, since that takes a run of all collectors.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from collectors.interface.sample import NodeEvent, PermanentProblem
from plimsoll.ratelimit import TokenBucket
from plimsoll.wakeup import WakeUp
from wire.codec import Snapshot
from wire.failing_rules import FailingRule
from wire.problems import MOST_EVENTS, ProblemCondition, ProblemEvent, Problems

T = TypeVar("T")

_AGAIN = 60.0
"""Seconds between two look-ups of matching names: a new .prom file may have new metrics."""


class _LookUp(Generic[T]):
    """One look-up at a time, in a thread; signals `due` when it has a result. A newer one replaces it."""

    def __init__(self, due: WakeUp) -> None:
        self._due = due
        self._task: asyncio.Task[T] | None = None

    @property
    def running(self) -> bool:
        """Whether a look-up runs."""
        return self._task is not None and not self._task.done()

    def start(self, work: Callable[[], T]) -> None:
        """Run `work` in a thread."""
        self._task = asyncio.create_task(asyncio.to_thread(work))
        self._task.add_done_callback(self._done)

    def drop(self) -> None:
        """Ignore the current look-up."""
        self._task = None

    def take(self) -> T | None:
        """Return a new result, once; None if there is none, or it failed."""
        if self._task is None or not self._task.done():
            return None
        task, self._task = self._task, None
        return None if task.exception() else task.result()

    def _done(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._due.set()


class SimilarNames:
    """The names of series similar to absent metrics, after each full report."""

    def __init__(
        self, look_up: Callable[[Sequence[str]], Mapping[str, Sequence[str]]], due: WakeUp
    ) -> None:
        self._look_up = look_up
        self._lookup = _LookUp[Mapping[str, Sequence[str]]](due)

    def find(self, metrics: Sequence[str], snapshot: Snapshot) -> None:
        """Look up names for the absent metrics of a full report; an earlier look-up is dropped."""
        absent = [
            m
            for m in metrics
            if not (m in snapshot.values or m in snapshot.several or m in snapshot.unread)
        ]
        self._lookup.drop()
        if absent:
            self._lookup.start(lambda: self._look_up(absent))

    def take(self) -> Mapping[str, Sequence[str]]:
        """Return what was found, once; empty if there is nothing new."""
        return self._lookup.take() or {}


class MatchingNames:
    """The names of metrics that match patterns: for new patterns, and again when the names have changed."""

    def __init__(self, look_up: Callable[[Sequence[str]], Sequence[str]], due: WakeUp) -> None:
        self._look_up = look_up
        self._lookup = _LookUp[Sequence[str]](due)
        self._patterns: tuple[str, ...] = ()
        self._sent: Sequence[str] = ()
        self._next = 0.0

    def find(self, patterns: Iterable[str], now: float) -> None:
        """Look up names if it is time at `now` (seconds), or the patterns are others."""
        wanted = tuple(patterns)
        if wanted != self._patterns:
            self._patterns, self._sent, self._next = wanted, (), now
            self._lookup.drop()
        if wanted and now >= self._next and not self._lookup.running:
            self._next = now + _AGAIN
            self._lookup.start(lambda: self._look_up(wanted))

    def take(self) -> Sequence[str]:
        """Return all matching names if they have changed; else nothing."""
        names = self._lookup.take()
        if names is None or names == self._sent:
            return ()
        self._sent = names
        return names


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
        read: Callable[[], tuple[Sequence[PermanentProblem], Sequence[NodeEvent]]],
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`read` returns the conditions, and the last event of each source and reason; `wall` Unix seconds."""
        self._read = read
        self._wall = wall
        self._conditions: Sequence[PermanentProblem] = ()
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

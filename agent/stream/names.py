"""Names of series that an evaluator asks for, looked up in the background: that takes a run of all collectors."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from plimsoll.wakeup import WakeUp
from wire.codec import Snapshot

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

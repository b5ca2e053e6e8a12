"""Takes decisions and actions as they are made, and adds what changed to the history."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator

from evaluator.core.policy.decide import Decisions
from evaluator.core.report import Action
from evaluator.features.history.history import History
from evaluator.features.history.metrics import HistoryMetrics
from evaluator.features.history.plan import Causes, Edit, Transitions, changes
from evaluator.features.history.restore import Restored
from evaluator.features.history.series import Series
from plimsoll.http.pieces import unhurried

_TOGETHER = 200
"""Transitions added together."""
_MOST_RESTORED = 5_000
"""Records from before the start."""
_SAMPLES = 5.0
"""Seconds between two samples of the readings: twelve for each minute of a series."""

Clock = Callable[[], float]


def _time(one: Restored) -> float:
    return one.at


def _nothing() -> Iterator[Restored | None]:
    """Restore nothing."""
    yield from ()


class Recorder:
    """Records changes. `restore` yields what is known from before the start; `clock` is that of the decision loop, `wall` returns Unix seconds."""

    def __init__(
        self,
        history: History,
        series: Series,
        metrics: HistoryMetrics,
        *,
        restore: Callable[[], Iterator[Restored | None]] = _nothing,
        clock: Clock = time.monotonic,
        wall: Clock = time.time,
    ) -> None:
        self._history = history
        self._series = series
        self._metrics = metrics
        self._dropped = 0
        self._clock, self._wall = clock, wall
        self._restore = restore
        self._before = Decisions()
        self._causes = Causes()
        self._waiting: deque[tuple[Decisions, float]] = deque()
        self._busy = False
        self._restored = False

    def decided(self, decisions: Decisions, now: float) -> Iterator[None]:
        """Record what changed, in steps. Decisions made between these steps are recorded after them, in their order."""
        self._waiting.append((decisions, self._wall() - (self._clock() - now)))
        if self._busy:
            return
        self._busy = True
        try:
            while self._waiting:
                after, at = self._waiting.popleft()
                if not self._restored:
                    self._restored = True
                    yield from self._restoring(at)
                yield from self._record(after, at)
        finally:
            self._busy = False

    def _restoring(self, now: float) -> Iterator[None]:
        """Add records from before the start, before all others, the newest if there are many."""
        found: list[Restored] = []
        for one in self._restore():
            if one is None:
                yield
            elif one.at < now:
                found.append(one)
        for one in sorted(found, key=_time)[-_MOST_RESTORED:]:
            fields = one._asdict()
            self._history.add(fields.pop("kind"), fields.pop("at"), restored=True, **fields)
            yield

    def _record(self, after: Decisions, at: float) -> Iterator[None]:
        before, self._before = self._before, after
        moved: list[Transitions] = []
        for change in changes(before, after, self._causes):
            if isinstance(change, Transitions):
                moved.append(change)
            elif isinstance(change, Edit):
                self._history.add_edit(change, at)
            else:
                yield
            if moved and len(moved) + len(moved[-1].moves) > _TOGETHER:
                yield from self._history.add_transitions(moved, at)
                moved.clear()
                yield
        yield from self._history.add_transitions(moved, at)
        yield
        self._history.forget(self._wall())
        self._metrics.size.set(self._history.size + self._series.size)
        self._metrics.records.set(self._history.count)
        self._metrics.dropped.inc(self._history.dropped - self._dropped)
        self._dropped = self._history.dropped

    async def sample(self) -> None:
        """Sample the readings of the newest decisions every few seconds, until cancelled."""
        while True:
            await unhurried(self._series.sample(self._before, self._wall()))
            await asyncio.sleep(_SAMPLES)

    def acted(self, action: Action) -> None:
        """Record what a feature did."""
        self._history.add_action(action, self._wall())

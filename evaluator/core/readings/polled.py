"""Readings of a polled source: one answer holds one metric of all nodes.

Plain state with the same columns as the store; times are passed in, and no I/O is done here.
"""

import contextlib
import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evaluator.core.model.arrays import Counts, Floats
from evaluator.core.readings.column import NEVER, Column, Reading, is_fresh, unknown
from evaluator.core.readings.delays import SuspendedTime
from evaluator.core.readings.tables import RowIndex, Rows

_SPARE = 64
"""Stale names tolerated beyond twice the number of nodes before rows are compacted."""


@dataclass(slots=True)
class _Metric:
    """One metric. The last element of each array stands for all nodes that the answer did not name."""

    values: Floats = field(default_factory=lambda: np.full(1, np.nan))
    samples: Counts = field(default_factory=lambda: np.zeros(1, np.int32))
    at: Floats = field(default_factory=lambda: np.full(1, NEVER))
    since: float | None = None
    """When it was first requested; None: not yet."""
    answered_once: bool = False
    """Whether there was an answer, or a failure."""
    failing: bool = False
    fault: str = ""
    seen: tuple[Rows, Floats, Counts, Floats] | None = None
    """The arrays at the rows that were read last: answers are read more often than they change."""
    oldest: float | None = None
    """The earliest of its times; None until computed."""

    def at_rows(self, rows: Rows) -> tuple[Floats, Counts, Floats]:
        """Return values, samples and times at some rows; read-only."""
        if self.seen is None or self.seen[0] is not rows:
            known = np.where(rows < len(self.at) - 1, rows, -1)
            self.seen = (rows, self.values[known], self.samples[known], self.at[known])
        return self.seen[1:]

    def oldest_fresh(self, now: float, stale_after: float) -> float:
        """Return the earliest time of a fresh reading (seconds); infinity if there is none."""
        if self.oldest is None:
            self.oldest = float(self.at.min())
        if is_fresh(self.oldest, now, stale_after):
            return self.oldest
        return float(self.at.min(where=is_fresh(self.at, now, stale_after), initial=np.inf))

    def forget(self, row: int) -> None:
        """Reset a row to the state of a node that the answer did not name."""
        if row < len(self.at) - 1:
            self.values[row], self.samples[row], self.at[row] = np.nan, 0, self.answered
            self.seen = self.oldest = None

    @property
    def answered(self) -> float:
        """When the last answer arrived (seconds)."""
        return float(self.at[-1])


class PolledReadings:
    """Answers of one source by metric. Readings older than `stale_after` seconds are missing; `started`: first poll."""

    def __init__(self, name: str, *, stale_after: float, started: float) -> None:
        self.name = name
        self.stale_after = stale_after
        self.started = started
        self.pause = SuspendedTime()
        self.version = 0
        """Incremented when the input of rules changes; equal answers do not count."""
        self._metrics: dict[str, _Metric] = {}
        self._rows = RowIndex()

    @property
    def metrics(self) -> frozenset[str]:
        """The subscribed metrics."""
        return frozenset(self._metrics)

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Keep only these metrics; new ones are unreported."""
        subscribed = set(metrics)
        if subscribed != self._metrics.keys():
            self._metrics = {
                name: self._metrics.get(name) or _Metric() for name in sorted(subscribed)
            }
            self.version += 1

    def resume(self, since: float, now: float) -> None:
        """The process was suspended from `since` to `now`: readings fresh before count as unreported."""
        self.pause = SuspendedTime(since, now)
        self.version += 1

    def answer(
        self, metric: str, readings: Mapping[str, Reading], at: float, *, fault: str = ""
    ) -> None:
        """Store an answer for a metric; nodes that it does not name have no reading.

        `fault` describes a partial failure.
        """
        old = self._metrics.get(metric)
        if old is None:
            return
        rows = [self._row(node) for node in readings]
        size = len(self._rows.rows) + 1
        new = _Metric(
            np.full(size, np.nan),
            np.zeros(size, np.int32),
            np.full(size, at),
            since=old.since,
            answered_once=True,
            fault=fault,
        )
        new.values[rows] = [reading.value for reading in readings.values()]
        new.samples[rows] = [reading.samples for reading in readings.values()]
        new.at[rows] = [reading.at for reading in readings.values()]
        self._metrics[metric] = new
        self.version += not self._alike(old, new, at)

    def failed(self, metric: str, fault: str) -> None:
        """Record that the source failed; earlier readings keep their age and become stale."""
        entry = self._metrics.get(metric)
        if entry is not None and (not entry.failing or entry.fault != fault):
            self._metrics[metric] = replace(entry, answered_once=True, failing=True, fault=fault)
            self.version += 1

    @contextlib.contextmanager
    def snapshot(self, _nodes: Sequence[str]) -> Iterator["PolledReadings"]:
        """Yield a read-only view of the readings as they are now."""
        frozen = copy.copy(self)
        frozen.freeze()
        yield frozen

    def freeze(self) -> None:
        """Detach this copy from later changes of the original."""
        self._metrics = self._metrics.copy()

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """Return one metric over some nodes; read-only arrays that later answers do not change."""
        entry = self._metrics.get(metric)
        if entry is None:
            return unknown(len(nodes), unreported=self._starting(now))
        fault = entry.fault and f"{self.name}: {entry.fault}"
        if entry.answered == NEVER:
            unreported = self._is_expected(entry, now)
            return unknown(len(nodes), unreported=unreported, unread=entry.failing, fault=fault)
        values, samples, at = entry.at_rows(self._rows.find(nodes))
        fresh, hidden = is_fresh(at, now, self.stale_after), np.zeros(len(nodes), bool)
        if self.pause.matters(now, self.stale_after):
            hidden = self.pause.hides(at, fresh, self.stale_after)
        unread = np.full(len(nodes), entry.failing)
        return Column(values, samples, at, fresh, unread, hidden, fault, source=self.name)

    def next_expiry(self, now: float) -> float:
        """Return when a reading becomes stale, or is no longer expected (seconds)."""
        times = [self.started, self.pause.end]
        for entry in self._metrics.values():
            times.append(entry.oldest_fresh(now, self.stale_after))
            if not entry.answered_once and entry.since is not None:
                times.append(entry.since)
        fresh = (at for at in times if is_fresh(at, now, self.stale_after))
        return min(fresh, default=np.inf) + self.stale_after

    def forget(self, node: str) -> None:
        """Drop the readings of a deleted node."""
        row = self._rows.rows.get(node)
        if row is None:
            return
        for entry in self._metrics.values():
            entry.forget(row)
        self.version += 1

    def prune(self, nodes: Collection[str], now: float) -> None:
        """Drop names other than these nodes, so that they do not accumulate. New metrics are expected from now on."""
        for entry in self._metrics.values():
            entry.since = now if entry.since is None else entry.since
        if len(self._rows.rows) <= 2 * len(nodes) + _SPARE:
            return
        kept = [node for node in self._rows.rows if node in nodes]
        found = self._rows.find(kept)
        for metric, entry in self._metrics.items():
            rows = np.append(np.where(found < len(entry.at) - 1, found, -1), -1)
            self._metrics[metric] = replace(
                entry,
                values=entry.values[rows],
                samples=entry.samples[rows],
                at=entry.at[rows],
                seen=None,
                oldest=None,
            )
        self._rows = RowIndex(kept)

    def _is_expected(self, entry: _Metric, now: float) -> bool:
        """Whether a first answer is still expected. A failure ends that, except during startup."""
        first = entry.since is None or now - entry.since < self.stale_after
        return self._starting(now) or (first and not entry.answered_once)

    def _starting(self, now: float) -> bool:
        return now - self.started < self.stale_after

    def _alike(self, old: _Metric, new: _Metric, at: float) -> bool:
        """Whether two answers give rules and `/explain` the same input."""
        if (old.answered_once, old.failing, old.fault) != (
            new.answered_once,
            new.failing,
            new.fault,
        ):
            return False
        return (
            len(old.at) == len(new.at)
            and np.array_equal(old.values, new.values, equal_nan=True)
            and np.array_equal(old.samples, new.samples)
            and np.array_equal(
                is_fresh(old.at, at, self.stale_after), is_fresh(new.at, at, self.stale_after)
            )
        )

    def _row(self, node: str) -> int:
        row = self._rows.rows.get(node)
        if row is None:
            row = len(self._rows.rows)
            self._rows.put(node, row)
        return row

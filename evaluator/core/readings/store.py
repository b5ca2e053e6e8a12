"""The latest reading of every subscribed metric of every node, in numpy arrays.

The store is plain state: times are passed in, and no I/O is done here. One thread receives reports and changes it in
place, so no lock is needed. A decision reads columns from a snapshot while reports arrive: while a snapshot is open, the
store copies each row before its first change.
"""

import contextlib
import copy
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from evaluator.core.model.arrays import Bools, Counts, Floats
from evaluator.core.readings.column import NEVER, Column, Reading, is_fresh, unknown
from evaluator.core.readings.delays import DelayedReports, SuspendedTime
from evaluator.core.readings.tables import NEVER_HAD, Cells, RowIndex, Rows, Undo
from wire.codec import Delta

_COLUMNS = 1024
"""Columns at least; the default of `--maxMetrics` fits."""
_ROWS = 16_384
"""Rows at least: three times the nodes that Kubernetes supports.

Unused rows and columns are 350 MB of address space and no memory. Moving the readings of 5,000 nodes and 1,000 metrics to
larger tables takes 0.1 s in one piece.
"""


class _ReportTimes(NamedTuple):
    """The time of each node's last report, and whether it is fresh, at one moment."""

    rows: Rows
    now: float
    at: Floats
    fresh: Bools


class _Facts(NamedTuple):
    """A column without values and report times; rarely changes. `older`: times of readings older than the last report.

    `cells`: the numbers of samples as in the table, where those that the node never had are NEVER_HAD.
    """

    rows: Rows
    cells: Counts
    unread: Bools
    older: Floats | None
    samples: Counts
    never_had: Bools | None


def _facts(rows: Rows, cells: Counts, unread: Bools, older: Floats | None) -> _Facts:
    never_had = cells == NEVER_HAD
    if not never_had.any():
        return _Facts(rows, cells, unread, older, cells, None)
    return _Facts(rows, cells, unread, older, np.maximum(cells, 0), never_had & ~unread)


class Store:
    """Readings by node and metric; a metric that was never reported has 0 samples at time NEVER.

    Readings older than `stale_after` seconds are stale. `started`: when reports can first arrive; for `grace` seconds
    after it (at least `stale_after`) every node's first report is expected. `reconnect`: seconds for which readings are
    fresh longer when the port of agents restarted.

    A report confirms all readings that it does not name, so most readings have the time of the node's last report: that is stored once per node, and
    only older times are stored per reading.
    """

    def __init__(
        self, *, stale_after: float, started: float, grace: float = 0.0, reconnect: float = 0.0
    ) -> None:
        self.stale_after = stale_after
        self.started = started
        self._grace = max(grace, stale_after)
        self._delays = DelayedReports(stale_after, reconnect)
        self.pause = SuspendedTime()
        self.version = 0
        """Incremented when the input of rules changes; equal readings do not count."""
        self._metrics: dict[str, int] = {}
        self._rows = RowIndex()
        self._cells = Cells(_COLUMNS, _ROWS)
        self._reported: Floats = np.full(_ROWS + 1, NEVER)
        self._free: list[int] = []
        """Rows to reuse; rows from `_used` on were never used."""
        self._used = 0
        self._nodes = 0
        """Nodes of the cluster, for which new columns are prepared."""
        self._spare: list[int] = []
        """Columns below `_top` without a metric."""
        self._top = 0
        """Columns from here on were never used."""
        self._expected: dict[int, float] = {}
        """By the row of a node that was registered and has not reported since, when that was."""
        self._released: list[int] = []
        """Those that a snapshot may still read; they are spare when the last snapshot is closed."""
        self._lagging: dict[int, Floats] = {}
        """Row of a node with unread metrics → the distinct times of their last readings."""
        self._last_times: _ReportTimes | None = None
        self._facts: dict[int, _Facts] = {}
        """By column; dropped when it changes."""
        self._open: list[Undo] = []
        """One per open snapshot."""
        self._undo: Undo | None = None
        """In a snapshot: the rows changed since it was taken."""

    @property
    def metrics(self) -> frozenset[str]:
        """The subscribed metrics."""
        return frozenset(self._metrics)

    @property
    def rows(self) -> int:
        """The number of nodes that fit without reallocation."""
        return self._cells.rows

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Keep only these metrics; readings of metrics that stay are kept."""
        subscribed = set(metrics)
        if subscribed == self._metrics.keys():
            return
        kept = {name: column for name, column in self._metrics.items() if name in subscribed}
        new = sorted(subscribed - kept.keys())
        unused = self._released if self._open else self._spare
        unused += [self._metrics[name] for name in self._metrics.keys() - subscribed]
        self._metrics = kept
        if len(new) > len(self._spare) + self._cells.columns - self._top:
            self._move(columns=len(subscribed) + len(subscribed) // 4, rows=self.rows)
        for name in new:
            column = self._metrics[name] = (
                self._spare.pop() if self._spare else self._unused_column()
            )
            self._facts.pop(column, None)
            self._cells.clear(column, slice(max(self._used, self._nodes)))
            self._cells.clear(column, -1)
        self.version += 1

    def reserve(self, nodes: int) -> None:
        """Prepare for this many nodes, before they report: later, what is known has to be copied."""
        self._nodes = nodes
        if nodes > self.rows:
            self._move(columns=self._cells.columns, rows=2 * nodes)

    def _move(self, *, columns: int, rows: int) -> None:
        """Reallocate to this many columns and rows."""
        used, old, reported = slice(self._used), self._cells, self._reported
        self._cells, self._reported = Cells(columns, rows), np.full(rows + 1, NEVER)
        self._cells.copy_from(old, list(self._metrics.values()), used)
        self._reported[used] = reported[used]
        self._metrics = {name: column for column, name in enumerate(self._metrics)}
        self._top, self._spare = len(self._metrics), []
        self._last_times, self._facts, self._open, self._released = None, {}, [], []

    @contextlib.contextmanager
    def snapshot(self, nodes: Sequence[str]) -> Iterator["Store"]:
        """Yield a read-only view of the readings as they are now; later reports do not change it."""
        self._rows.find(nodes)
        frozen = copy.copy(self)
        undo = frozen.freeze()
        self._open.append(undo)
        try:
            yield frozen
        finally:
            self._open = [other for other in self._open if other is not undo]
            if not self._open:
                self._spare, self._released = self._spare + self._released, []

    def freeze(self) -> Undo:
        """Detach this copy; the tables stay shared, so the original must report each row to the Undo before a change."""
        self._rows, self._reported = self._rows.copy(), self._reported.copy()
        self._expected, self._lagging = self._expected.copy(), self._lagging.copy()
        self._undo = self._cells.undo(self._top)
        return self._undo

    def _keep(self, row: int) -> None:
        """Save a row for open snapshots before it changes."""
        for undo in self._open:
            undo.keep(row)

    def report(self, node: str, report: Delta, at: float) -> None:
        """Store a report of a node received at `at` (seconds). Metrics without subscription are ignored."""
        row = self._row(node)
        last = self._reported[row]
        changed = not self._delays.fresh(last, at)
        self._reported[row] = at
        if self._expected:
            self._expected.pop(row, None)
        self._last_times = None
        unread = [self._metrics[name] for name in report.unread if name in self._metrics]
        if unread or row in self._lagging:
            self._keep(row)
            changed |= self._note_unread(row, unread, last)
        readings = [
            (name, np.nan, NEVER_HAD if name in report.never_had else 0) for name in report.absent
        ]
        readings += [(name, np.nan, count) for name, count in report.several.items()]
        readings += [(name, value, 1) for name, value in report.values.items()]
        if readings:
            self._keep(row)
            changed |= self._put(row, readings)
        self.version += changed

    def _note_unread(self, row: int, columns: Sequence[int], last: float) -> bool:
        """Unread metrics keep the time of their last reading; all others get the time of this report."""
        used = slice(self._top)
        before, latest = self._cells.unread[used, row].copy(), self._cells.latest[used, row]
        unread = np.zeros_like(before)
        unread[columns] = True
        known = latest > NEVER
        latest[known & unread] = np.minimum(latest[known & unread], last)
        latest[known & ~unread] = np.inf
        self._cells.unread[used, row] = unread
        self._facts.clear()
        if columns:
            self._lagging[row] = np.unique(latest[known & unread])
        else:
            del self._lagging[row]
        return not np.array_equal(before, unread)

    def _put(self, row: int, readings: Iterable[tuple[str, float, int]]) -> bool:
        """Write readings of one node: (metric, value, number of samples) each."""
        index, cells = self._metrics, self._cells
        known = [(index[name], value, count) for name, value, count in readings if name in index]
        if not known:
            return False
        columns, values, samples = (np.array(part) for part in zip(*known, strict=True))
        other = (cells.samples[columns, row] != samples) | (cells.latest[columns, row] < np.inf)
        if other.any():
            cells.samples[columns, row] = samples
            cells.latest[columns, row] = np.inf
            for column in columns[other].tolist():
                self._facts.pop(column, None)
        elif cells.values[columns, row].tobytes() == values.tobytes():
            return False
        cells.values[columns, row] = values
        return True

    def resume(self, since: float, now: float) -> None:
        """The process was suspended from `since` to `now`: nodes fresh before count as unreported."""
        self.pause = SuspendedTime(since, now)
        self.version += 1

    def port_restarted(self, at: float) -> None:
        """The port of agents restarted: their next reports come later."""
        self._delays = self._delays.restarted(at)
        self._last_times = None

    def expect(self, node: str, at: float) -> None:
        """Register a node: drop its readings, and expect its first report for `stale_after` seconds."""
        self.forget(node)
        row = self._row(node)  # first: it may reallocate the arrays
        self._expected[row] = at
        self._last_times, self._facts = None, {}
        self.version += 1

    def forget(self, node: str) -> None:
        """Drop the readings of a deleted node."""
        row = self._rows.drop(node)
        if row is not None:
            self._keep(row)
            self._cells.clear(slice(self._top), row)
            self._reported[row] = NEVER
            self._expected.pop(row, None)
            self._last_times, self._facts = None, {}
            self._lagging.pop(row, None)
            self._free.append(row)
            self.version += 1

    def prune(self, nodes: Collection[str], now: float) -> None:
        """Drop stale nodes that are not among these, so that names do not accumulate."""
        self.reserve(len(nodes))
        reported = self._reported[: self._used]
        silent = (reported > NEVER) & ~is_fresh(reported, now, self.stale_after)
        if silent.any():
            rows = self._rows.rows.items()
            for node in [name for name, row in rows if silent[row] and name not in nodes]:
                self.forget(node)

    def knows(self, node: str) -> bool:
        """Whether deltas of a node can be applied; otherwise it must send a full report."""
        return self.reported_at(node) > NEVER

    def reported_at(self, node: str) -> float:
        """Return the time of a node's last report (seconds); NEVER if there is none."""
        row = self._rows.rows.get(node)
        return NEVER if row is None else float(self._reported[row])

    def reading(self, metric: str, node: str) -> Reading:
        """Return one reading; 0 samples at NEVER if there is none."""
        row, column = self._rows.rows.get(node), self._metrics.get(metric)
        if row is None or column is None:
            return Reading(0, np.nan, NEVER)
        cells, cell = self._cells, (column, row)
        at = min(float(cells.latest[cell]), float(self._reported[row]))
        return Reading(max(0, int(cells.samples[cell])), float(cells.values[cell]), at)

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """Return one metric over some nodes; read-only arrays that later reports do not change."""
        starting = now - self.started < self._grace
        size, column = len(nodes), self._metrics.get(metric)
        if column is None or not self._rows.rows or not size:
            return unknown(size, unreported=starting)
        reported = self._report_times(self._rows.find(nodes), now)
        facts, values = (
            self._facts_of(column, reported.rows),
            self._cells.values[column].take(reported.rows),
        )
        if self._undo:
            facts, values = _restored(self._undo, column, facts, values)
        at, fresh, unreported = reported.at, reported.fresh, np.zeros(size, bool)
        if facts.older is not None:
            at = np.minimum(facts.older, reported.at)
            fresh = self._delays.fresh(at, now)
            # "Unread" counts as a first report, except during startup, so that labels are kept.
            expected = starting | self._expecting(reported.rows, now)
            unreported = (at == NEVER) & ((reported.fresh & ~facts.unread) | expected)
        if self.pause.matters(now, self._grace):
            unreported = unreported | self.pause.hides(at, fresh, self.stale_after)
        never_had = None if facts.never_had is None else facts.never_had & fresh
        return Column(
            values, facts.samples, at, fresh, facts.unread, unreported, never_had=never_had
        )

    def _report_times(self, rows: Rows, now: float) -> _ReportTimes:
        """Return report times; cached, as all columns of one decision use the same."""
        last = self._last_times
        if last is None or last.rows is not rows or last.now != now:
            at = self._reported.take(rows)
            fresh = self._delays.fresh(at, now)
            last = self._last_times = _ReportTimes(rows, now, at, fresh)
        return last

    def _expecting(self, rows: Rows, now: float) -> Bools:
        """Which of some rows are of nodes that were registered lately and have not reported."""
        expecting = np.zeros(len(self._reported), bool)
        expecting[[row for row, at in self._expected.items() if at > now - self._grace]] = True
        found: Bools = expecting.take(rows)
        return found

    def _facts_of(self, column: int, rows: Rows) -> _Facts:
        facts = self._facts.get(column)
        if facts is None or facts.rows is not rows:
            older = self._cells.latest[column].take(rows)
            facts = self._facts[column] = _facts(
                rows,
                self._cells.samples[column].take(rows),
                self._cells.unread[column].take(rows),
                older if (older < np.inf).any() else None,
            )
        return facts

    def next_expiry(self, now: float) -> float:
        """Return when a reading becomes stale, or startup ends (seconds)."""
        older = self._lagging.values()
        later = self._grace - self.stale_after
        waits = [self.started + later, self.pause.end + later]
        waits += [at + later for at in self._expected.values()]
        times = np.concatenate([self._reported[: self._used], *older, waits])
        return self._delays.next_expiry(times, now)

    def _row(self, node: str) -> int:
        if (row := self._rows.rows.get(node)) is not None:
            return row
        row = self._free.pop() if self._free else self._unused_row()
        self._rows.put(node, row)
        return row

    def _unused_row(self) -> int:
        if self._used == self.rows:
            self._move(columns=self._cells.columns, rows=2 * self._used)
        row, self._used = self._used, self._used + 1
        self._cells.clear(slice(self._top), row)
        return row

    def _unused_column(self) -> int:
        column, self._top = self._top, self._top + 1
        return column


def _restored(undo: Undo, column: int, facts: _Facts, values: Floats) -> tuple[_Facts, Floats]:
    """Return facts and values of a column as they were when the snapshot was taken."""
    rows, older = facts.rows, facts.older
    latest = np.full(values.shape, np.inf) if older is None else older
    before = undo.restored(2, column, rows, latest)
    cells = undo.restored(1, column, rows, facts.cells)
    unread = undo.restored(3, column, rows, facts.unread)
    facts = _facts(rows, cells, unread, older if before is latest else before)
    return facts, undo.restored(0, column, rows, values)

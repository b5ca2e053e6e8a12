"""The latest reading of every subscribed metric for every node, in arrays that numpy can compare at once.

The store is plain state: times are passed in, nothing is read or awaited. It is changed in place by the one thread that
receives reports, so no lock is needed. A decision reads its columns one by one while reports arrive, from a snapshot:
while one is open, the store keeps a copy of each row before the first report that changes it.
"""

import contextlib
import copy
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evaluator.readings.lazy_arrays import zeros
from evaluator.readings.row_index import RowIndex, Rows
from evaluator.readings.undo import Undo
from wire.codec import Delta

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

NEVER = -np.inf

_COLUMNS = 1024
"""Columns at least: unused ones take no memory, and copying 1,000 columns of 5,000 nodes takes 0.1 s."""


class Reading(NamedTuple):
    """One metric of one node: how many samples there were, the value if it was one, and when (seconds, store's clock)."""

    samples: int
    value: float
    at: float


class SourceMask(NamedTuple):
    """Which source each reading of a column is from, where there are several: its place among their names."""

    names: tuple[str, ...]
    numbers: npt.NDArray[np.int8]


class Column(NamedTuple):
    """One metric over a list of nodes, in that order.

    `at` is when it was read, `fresh` whether that is recent enough. `unread`: its source said last that it cannot be
    read. `awaited`: a first word about it is still to be expected, from a node that reports, and at the start from every
    node. `fault` is what a source says that has not got the metric, in words that stay the same while that is so.
    `source` is the polled source that all of it is from, and empty of what agents reported.
    """

    values: Floats
    samples: Counts
    at: Floats
    fresh: Bools
    unread: Bools
    unreported: Bools
    fault: str = ""
    origin: SourceMask | None = None
    source: str = ""

    def source_at(self, place: int) -> str:
        """Whose reading the one at a place is."""
        return self.source if self.origin is None else self.origin.names[self.origin.numbers[place]]

    @property
    def usable(self) -> Bools:
        """Where a rule may look at the value: one sample, not NaN, and fresh."""
        usable: Bools = self.fresh & (self.samples == 1) & ~np.isnan(self.values)
        return usable


def unknown(size: int, *, unreported: bool, unread: bool = False, fault: str = "") -> Column:
    """A column over so many nodes of which nothing is known."""
    return Column(
        np.full(size, np.nan),
        np.zeros(size, np.int32),
        np.full(size, NEVER),
        np.zeros(size, bool),
        np.full(size, unread),
        np.full(size, unreported),
        fault,
    )


class _Heard(NamedTuple):
    """When each of some nodes was heard of last, and whether that is recent, at one moment."""

    rows: Rows
    now: float
    at: Floats
    fresh: Bools


@dataclass(frozen=True, slots=True)
class SuspendedTime:
    """A time in which this process was stopped: that nobody was heard in it says nothing about anybody."""

    since: float = NEVER
    end: float = NEVER

    def matters(self, now: float, grace: float) -> bool:
        """Whether the first reports after it may still be on their way."""
        return now - self.end < grace

    def hides(self, at: Floats, fresh: Bools, stale_after: float) -> Bools:
        """Of readings of these times, which were fresh when it began and are no longer."""
        hidden: Bools = ~fresh & (at >= self.since - stale_after)
        return hidden


class _Facts(NamedTuple):
    """What a column says of some nodes beside the values: it rarely changes. `older` are the times that are not `heard`."""

    rows: Rows
    samples: Counts
    unread: Bools
    older: Floats | None


class Store:
    """Readings by node and metric; what was never reported has no samples, at time NEVER.

    A reading older than `stale_after` seconds is missing, not true. `started` is when the first report can have come, and
    `grace` the seconds after it in which every node's first report is awaited: at least `stale_after`.

    Each metric's readings lie side by side, for that is how they are read, far more often than they are written. A report
    vouches for whatever it does not name, so that most readings of a node have the time of its last report: that is kept
    once, and beside it only what is older.
    """

    def __init__(self, *, stale_after: float, started: float, grace: float = 0.0) -> None:
        self.stale_after = stale_after
        self.started = started
        self._grace = max(grace, stale_after)
        self.pause = SuspendedTime()
        self.version = 0
        """Goes up when what a rule would see changed; not when the same was read again."""
        self._metrics: dict[str, int] = {}
        self._roster = RowIndex()
        self._free: list[int] = []
        """Rows that were used and are not any more; those from `_used` on were never used."""
        self._used = 0
        self._spare: list[int] = []
        """Columns without a metric."""
        self._expected: dict[int, float] = {}
        """By the row of a node that was registered and has not reported since, when that was."""
        self._released: list[int] = []
        """Those that a snapshot may still read; they are spare when the last snapshot is closed."""
        self._lagging: dict[int, Floats] = {}
        """By the row of a node that could not read something last, the different times of what it read before."""
        self._last_heard: _Heard | None = None
        self._facts: dict[int, _Facts] = {}
        """By column, until one of its facts changes."""
        self._open: list[Undo] = []
        """Of the snapshots that are open."""
        self._undo: Undo | None = None
        """Of a snapshot: the rows that were changed since."""
        self._make_room(columns=0, rows=0)

    def _make_room(self, *, columns: int, rows: int) -> None:
        """Other arrays. The last row is nobody's, and stays empty: it is where -1 points.

        Nothing is written before a row or column is used: then the system need not find memory for all of it at once.
        """
        self._last_heard, self._facts, self._open, self._released = None, {}, [], []
        shape = (columns, rows + 1)
        self._values: Floats = zeros(shape, np.float64)
        self._samples: Counts = zeros(shape, np.int32)
        self._latest: Floats = zeros(shape, np.float64)
        """When a reading was read at the latest, where that was before the node's last report; else infinity, or NEVER."""
        self._unread: Bools = zeros(shape, np.bool_)
        self._heard: Floats = np.full(rows + 1, NEVER)

    def _clear(self, columns: int | slice, rows: int | slice) -> None:
        """Nothing was ever reported there."""
        self._values[columns, rows], self._samples[columns, rows] = np.nan, 0
        self._latest[columns, rows], self._unread[columns, rows] = NEVER, False

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that have room here."""
        return frozenset(self._metrics)

    @property
    def room(self) -> int:
        """For how many nodes there is room."""
        return len(self._heard) - 1

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Make room for just these metrics; readings of those that stay are kept."""
        wanted = set(metrics)
        if wanted == self._metrics.keys():
            return
        kept = {name: column for name, column in self._metrics.items() if name in wanted}
        new = sorted(wanted - kept.keys())
        unused = self._released if self._open else self._spare
        unused += [self._metrics[name] for name in self._metrics.keys() - wanted]
        self._metrics = kept
        if len(new) > len(self._spare):
            self._move(columns=max(_COLUMNS, len(wanted) + len(wanted) // 4), rows=self.room)
        for name in new:
            column = self._metrics[name] = self._spare.pop()
            self._facts.pop(column, None)
            self._clear(column, slice(self._used))
            self._clear(column, -1)
        self.version += 1

    def reserve(self, nodes: int) -> None:
        """Make room for twice as many nodes, before they report: later, what is known has to be copied."""
        if nodes > self.room:
            self._move(columns=len(self._values), rows=2 * nodes)

    def _move(self, *, columns: int, rows: int) -> None:
        """Make room for so many columns and rows."""
        values, samples, latest = self._values, self._samples, self._latest
        unread, heard = self._unread, self._heard
        used = slice(self._used)
        self._make_room(columns=columns, rows=rows)
        source = list(self._metrics.values())
        self._metrics = dict(zip(self._metrics, range(columns), strict=False))
        self._spare = list(range(len(source), columns))[::-1]
        target = slice(len(source))
        self._values[target, used] = values[source, used]
        self._samples[target, used] = samples[source, used]
        self._latest[target, used] = latest[source, used]
        self._unread[target, used] = unread[source, used]
        self._heard[used] = heard[used]
        self._clear(target, -1)

    @contextlib.contextmanager
    def snapshot(self, nodes: Sequence[str]) -> Iterator["Store"]:
        """The readings of these nodes as they are now, whatever is reported until it is closed. Only for reading."""
        self._roster.find(nodes)
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
        """Stay what this is now. To be told of each row before it changes: the large arrays are still those of another."""
        self._roster, self._heard = self._roster.copy(), self._heard.copy()
        self._expected, self._lagging = self._expected.copy(), self._lagging.copy()
        self._undo = Undo(self._values, self._samples, self._latest, self._unread)
        return self._undo

    def _keep(self, row: int) -> None:
        """This row is about to change."""
        for undo in self._open:
            undo.keep(row)

    def report(self, node: str, report: Delta, at: float) -> None:
        """Take in what a node said at a time. Metrics that nobody subscribed to are passed over."""
        row = self._row(node)
        last = self._heard[row]
        changed = bool(last < at - self.stale_after)
        self._heard[row] = at
        if self._expected:
            self._expected.pop(row, None)
        self._last_heard = None
        unread = [self._metrics[name] for name in report.unread if name in self._metrics]
        if unread or row in self._lagging:
            self._keep(row)
            changed |= self._note_unread(row, unread, last)
        said = [(name, np.nan, 0) for name in report.absent]
        said += [(name, np.nan, count) for name, count in report.several.items()]
        said += [(name, value, 1) for name, value in report.values.items()]
        if said:
            self._keep(row)
            changed |= self._put(row, said)
        self.version += changed

    def _note_unread(self, row: int, columns: Sequence[int], last: float) -> bool:
        """What could not be read keeps the time it had at the last report; the rest is as new as this one."""
        before, latest = self._unread[:, row].copy(), self._latest[:, row]
        unread = np.zeros_like(before)
        unread[columns] = True
        known = latest > NEVER
        latest[known & unread] = np.minimum(latest[known & unread], last)
        latest[known & ~unread] = np.inf
        self._unread[:, row] = unread
        self._facts.clear()
        if columns:
            self._lagging[row] = np.unique(latest[known & unread])
        else:
            del self._lagging[row]
        return not np.array_equal(before, unread)

    def _put(self, row: int, said: Iterable[tuple[str, float, int]]) -> bool:
        """Readings of one node: metric, value, number of samples."""
        places = self._metrics
        known = [(places[name], value, count) for name, value, count in said if name in places]
        if not known:
            return False
        columns, values, samples = (np.array(part) for part in zip(*known, strict=True))
        other = (self._samples[columns, row] != samples) | (self._latest[columns, row] < np.inf)
        if other.any():
            self._samples[columns, row] = samples
            self._latest[columns, row] = np.inf
            for column in columns[other].tolist():
                self._facts.pop(column, None)
        elif self._values[columns, row].tobytes() == values.tobytes():
            return False
        self._values[columns, row] = values
        return True

    def resume(self, since: float, now: float) -> None:
        """Nobody has listened from some time after `since` until now: who was fresh then is awaited, as all are at the start."""
        self.pause = SuspendedTime(since, now)
        self.version += 1

    def expect(self, node: str, at: float) -> None:
        """A node is registered: nothing is known of it, and its first report is pending for `stale_after` seconds."""
        self.forget(node)
        row = self._row(node)  # first: it may make other arrays
        self._expected[row] = at
        self._last_heard, self._facts = None, {}
        self.version += 1

    def forget(self, node: str) -> None:
        """Drop the readings of a node that is no more."""
        row = self._roster.drop(node)
        if row is not None:
            self._keep(row)
            self._clear(slice(None), row)
            self._heard[row] = NEVER
            self._expected.pop(row, None)
            self._last_heard, self._facts = None, {}
            self._lagging.pop(row, None)
            self._free.append(row)
            self.version += 1

    def prune(self, nodes: Collection[str], now: float) -> None:
        """Forget who is silent and not among these nodes: names that come and go must not pile up."""
        self.reserve(len(nodes))
        silent = (self._heard > NEVER) & (self._heard < now - self.stale_after)
        if silent.any():
            rows = self._roster.rows.items()
            for node in [name for name, row in rows if silent[row] and name not in nodes]:
                self.forget(node)

    def knows(self, node: str) -> bool:
        """Whether a node's changes make sense here; otherwise it has to begin with everything."""
        row = self._roster.rows.get(node)
        return row is not None and bool(self._heard[row] > NEVER)

    def reading(self, metric: str, node: str) -> Reading:
        """One reading; samples 0 at NEVER where there was none."""
        row, column = self._roster.rows.get(node), self._metrics.get(metric)
        if row is None or column is None:
            return Reading(0, np.nan, NEVER)
        cell = (column, row)
        at = min(float(self._latest[cell]), float(self._heard[row]))
        return Reading(int(self._samples[cell]), float(self._values[cell]), at)

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """One metric over some nodes, in arrays that later reports leave alone and that nobody is to write to."""
        starting = now - self.started < self._grace
        size, column = len(nodes), self._metrics.get(metric)
        if column is None or not self._roster.rows or not size:
            return unknown(size, unreported=starting)
        heard = self._hearing(self._roster.find(nodes), now)
        facts, values = self._facts_of(column, heard.rows), self._values[column].take(heard.rows)
        if self._undo:
            facts, values = _restored(self._undo, column, facts, values)
        at, fresh, unreported = heard.at, heard.fresh, np.zeros(size, bool)
        if facts.older is not None:
            at = np.minimum(facts.older, heard.at)
            fresh = at >= now - self.stale_after
            # "Cannot be read" is a first word too; at the start one waits all the same, for the label's sake.
            expected = starting | self._expecting(heard.rows, now)
            unreported = (at == NEVER) & ((heard.fresh & ~facts.unread) | expected)
        if self.pause.matters(now, self._grace):
            unreported = unreported | self.pause.hides(at, fresh, self.stale_after)
        return Column(values, facts.samples, at, fresh, facts.unread, unreported)

    def _hearing(self, rows: Rows, now: float) -> _Heard:
        """The same for every column that is read at one moment."""
        last = self._last_heard
        if last is None or last.rows is not rows or last.now != now:
            at = self._heard.take(rows)
            last = self._last_heard = _Heard(rows, now, at, at >= now - self.stale_after)
        return last

    def _expecting(self, rows: Rows, now: float) -> Bools:
        """Which of some rows are of nodes that were registered lately and have not reported."""
        expecting = np.zeros(len(self._heard), bool)
        expecting[[row for row, at in self._expected.items() if at > now - self._grace]] = True
        found: Bools = expecting.take(rows)
        return found

    def _facts_of(self, column: int, rows: Rows) -> _Facts:
        facts = self._facts.get(column)
        if facts is None or facts.rows is not rows:
            older = self._latest[column].take(rows)
            facts = self._facts[column] = _Facts(
                rows,
                self._samples[column].take(rows),
                self._unread[column].take(rows),
                older if (older < np.inf).any() else None,
            )
        return facts

    def next_expiry(self, now: float) -> float:
        """When time alone will change something: a fresh reading has become too old, or the start is over."""
        older = self._lagging.values()
        later = self._grace - self.stale_after
        waits = [self.started + later, self.pause.end + later]
        waits += [at + later for at in self._expected.values()]
        times = np.concatenate([self._heard, *older, waits])
        return float(times.min(where=times >= now - self.stale_after, initial=np.inf)) + (
            self.stale_after
        )

    def _row(self, node: str) -> int:
        if (row := self._roster.rows.get(node)) is not None:
            return row
        row = self._free.pop() if self._free else self._unused_row()
        self._roster.put(node, row)
        return row

    def _unused_row(self) -> int:
        if self._used == self.room:
            self._move(columns=len(self._values), rows=max(16, 2 * self._used))
        row, self._used = self._used, self._used + 1
        self._clear(slice(None), row)
        return row


def _restored(undo: Undo, column: int, facts: _Facts, values: Floats) -> tuple[_Facts, Floats]:
    """Facts and values of a column as they were when a snapshot was taken."""
    rows, older = facts.rows, facts.older
    latest = np.full(values.shape, np.inf) if older is None else older
    before = undo.restored(2, column, rows, latest)
    samples = undo.restored(1, column, rows, facts.samples)
    unread = undo.restored(3, column, rows, facts.unread)
    facts = _Facts(rows, samples, unread, older if before is latest else before)
    return facts, undo.restored(0, column, rows, values)

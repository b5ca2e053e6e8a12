"""The latest reading of every subscribed metric for every node, in arrays that numpy can compare at once.

The store is plain state: times are passed in, nothing is read or awaited. It is changed in place by the one thread that
receives reports, and `decide()` runs on that thread between two changes, so no copy per report and no lock is needed.
"""

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evaluator.roster import Roster
from wire.codec import Delta

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

NEVER = -np.inf


class Reading(NamedTuple):
    """One metric of one node: how many samples there were, the value if it was one, and when (seconds, store's clock)."""

    samples: int
    value: float
    at: float


class Origin(NamedTuple):
    """Which source each reading of a column is from, where there are several: its place among their names."""

    names: tuple[str, ...]
    place: npt.NDArray[np.int8]


class Column(NamedTuple):
    """One metric over a list of nodes, in that order.

    `at` is when it was read, `fresh` whether that is recent enough. `unread`: its source said last that it cannot be
    read. `awaited`: a first word about it is still to be expected, from a node that reports, and at the start from every
    node. `fault` is what a source says that has not got the metric, in words that stay the same while that is so.
    """

    values: Floats
    samples: Counts
    at: Floats
    fresh: Bools
    unread: Bools
    awaited: Bools
    fault: str = ""
    origin: Origin | None = None

    @property
    def usable(self) -> Bools:
        """Where a rule may look at the value: one sample, not NaN, and fresh."""
        usable: Bools = self.fresh & (self.samples == 1) & ~np.isnan(self.values)
        return usable


def unknown(size: int, *, awaited: bool, unread: bool = False, fault: str = "") -> Column:
    """A column over so many nodes of which nothing is known."""
    return Column(
        np.full(size, np.nan),
        np.zeros(size, np.int32),
        np.full(size, NEVER),
        np.zeros(size, bool),
        np.full(size, unread),
        np.full(size, awaited),
        fault,
    )


class Store:
    """Readings by node and metric; what was never reported has no samples, at time NEVER.

    A reading older than `stale_after` seconds is missing, not true. `started` is when the first report can have come.
    """

    def __init__(self, *, stale_after: float, started: float) -> None:
        self.stale_after = stale_after
        self.started = started
        self.version = 0
        """Goes up when what a rule would see changed; not when the same was read again."""
        self._metrics: dict[str, int] = {}
        self._roster = Roster()
        self._free: list[int] = []
        self._resize(rows=0)

    def _resize(self, rows: int) -> None:
        shape = (rows, len(self._metrics))
        self._values: Floats = np.full(shape, np.nan)
        self._samples: Counts = np.zeros(shape, dtype=np.int32)
        self._at: Floats = np.full(shape, NEVER)
        self._unread: Bools = np.zeros(shape, dtype=bool)
        self._heard: Floats = np.full(rows, NEVER)

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that have room here."""
        return frozenset(self._metrics)

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Make room for just these metrics; readings of those that stay are kept."""
        wanted = sorted(set(metrics))
        kept = [name for name in wanted if name in self._metrics]
        if len(kept) == len(wanted) == len(self._metrics):
            return
        old, heard = (self._values, self._samples, self._at, self._unread), self._heard
        source = [self._metrics[name] for name in kept]
        self._metrics = {name: column for column, name in enumerate(wanted)}
        target = [self._metrics[name] for name in kept]
        self._resize(rows=old[0].shape[0])
        self._values[:, target] = old[0][:, source]
        self._samples[:, target] = old[1][:, source]
        self._at[:, target] = old[2][:, source]
        self._unread[:, target] = old[3][:, source]
        self._heard = heard
        self.version += 1

    def report(self, node: str, report: Delta, at: float) -> None:
        """Take in what a node said at a time. Metrics that nobody subscribed to are passed over."""
        row = self._row(node)
        values, samples, times = self._values[row], self._samples[row], self._at[row]
        unread = self._unread[row]
        before = (values.copy(), samples.copy(), times >= at - self.stale_after, unread.copy())
        self._heard[row] = at
        unread[:] = False
        for name in report.unread:
            if (column := self._metrics.get(name)) is not None:
                unread[column] = True
        # A report vouches for what it does not name; what was never reported stays so.
        times[(times > NEVER) & ~unread] = at
        for name in report.absent:
            self._put(row, name, np.nan, 0, at)
        for name, count in report.several.items():
            self._put(row, name, np.nan, count, at)
        for name, value in report.values.items():
            self._put(row, name, value, 1, at)
        after = (values, samples, times >= at - self.stale_after, unread)
        if not all(
            np.array_equal(b, a, equal_nan=True) for b, a in zip(before, after, strict=True)
        ):
            self.version += 1

    def _put(self, row: int, metric: str, value: float, samples: int, at: float) -> None:
        if (column := self._metrics.get(metric)) is not None:
            self._values[row, column] = value
            self._samples[row, column] = samples
            self._at[row, column] = at

    def forget(self, node: str) -> None:
        """Drop the readings of a node that is no more."""
        row = self._roster.drop(node)
        if row is not None:
            self._values[row], self._samples[row], self._at[row] = np.nan, 0, NEVER
            self._unread[row], self._heard[row] = False, NEVER
            self._free.append(row)
            self.version += 1

    def prune(self, nodes: Container[str], now: float) -> None:
        """Forget who is silent and not among these nodes: names that come and go must not pile up."""
        recent = now - self.stale_after
        rows = self._roster.rows
        gone = [n for n, row in rows.items() if n not in nodes and self._heard[row] < recent]
        for node in gone:
            self.forget(node)

    def knows(self, node: str) -> bool:
        """Whether a node's changes make sense here; otherwise it has to begin with everything."""
        return node in self._roster.rows

    def reading(self, metric: str, node: str) -> Reading:
        """One reading; samples 0 at NEVER where there was none."""
        row, column = self._roster.rows.get(node), self._metrics.get(metric)
        if row is None or column is None:
            return Reading(0, np.nan, NEVER)
        cell = (row, column)
        return Reading(int(self._samples[cell]), float(self._values[cell]), float(self._at[cell]))

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """One metric over some nodes, as copies that later reports leave alone."""
        starting = now - self.started < self.stale_after
        size, column = len(nodes), self._metrics.get(metric)
        if column is None or not self._roster.rows or not size:
            return unknown(size, awaited=starting)
        rows = self._roster.find(nodes)
        known, recent = rows >= 0, now - self.stale_after
        at = np.where(known, self._at[rows, column], NEVER)
        unread = known & self._unread[rows, column]
        alive = known & (self._heard[rows] >= recent)
        return Column(
            np.where(known, self._values[rows, column], np.nan),
            np.where(known, self._samples[rows, column], np.int32(0)),
            at,
            at >= recent,
            unread,
            # "Cannot be read" is a first word too; at the start one waits all the same, for the label's sake.
            (at == NEVER) & ((alive & ~unread) | starting),
        )

    def next_expiry(self, now: float) -> float:
        """When time alone will change something: a fresh reading has become too old, or the start is over."""
        recent = now - self.stale_after
        times = np.concatenate([self._at.ravel(), self._heard, [self.started]])
        fresh = times[times >= recent]
        return float(fresh.min()) + self.stale_after if fresh.size else np.inf

    def _row(self, node: str) -> int:
        if (row := self._roster.rows.get(node)) is not None:
            return row
        if not self._free:
            self._grow()
        row = self._free.pop()
        self._roster.put(node, row)
        return row

    def _grow(self) -> None:
        used = len(self._roster.rows)
        values, samples, at, heard = self._values, self._samples, self._at, self._heard
        unread = self._unread
        self._resize(rows=max(16, 2 * used))
        self._values[:used], self._samples[:used] = values[:used], samples[:used]
        self._at[:used], self._heard[:used] = at[:used], heard[:used]
        self._unread[:used] = unread[:used]
        self._free = list(range(self._values.shape[0] - 1, used - 1, -1))

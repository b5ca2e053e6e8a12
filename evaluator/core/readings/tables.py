"""The store's tables: a reading for each metric (column) and node (row), the rows by node, and copies of changed rows.

Reports write rows, decisions read columns. Memory is allocated page by page when a cell is first written.
"""

import copy
import math
import mmap
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from evaluator.core.model.arrays import Bools, Counts, Floats
from evaluator.core.readings.column import NEVER

Rows = npt.NDArray[np.intp]

NEVER_HAD = -1
"""The number of samples of a metric that the agent looked for and the node has not had since the agent started."""


class RowIndex:
    """Array rows by node name. `find` returns -1 for unknown nodes."""

    def __init__(self, nodes: Iterable[str] = ()) -> None:
        self.rows: dict[str, int] = {node: row for row, node in enumerate(nodes)}
        self._last_nodes: tuple[str, ...] | None = None
        self._last_rows: Rows = np.zeros(0, np.intp)

    def copy(self) -> "RowIndex":
        """Return an independent copy."""
        made = copy.copy(self)
        made.rows = self.rows.copy()
        return made

    def put(self, node: str, row: int) -> None:
        """Assign a row to a node."""
        self.rows[node] = row
        self._last_nodes = None

    def drop(self, node: str) -> int | None:
        """Remove a node; returns its row, or None."""
        self._last_nodes = None
        return self.rows.pop(node, None)

    def find(self, nodes: Sequence[str]) -> Rows:
        """Return the rows of some nodes, in order. The last tuple is cached: decide() repeats it for each metric."""
        if nodes is self._last_nodes:
            return self._last_rows
        rows: Rows = np.array([self.rows.get(node, -1) for node in nodes], dtype=np.intp)
        if isinstance(nodes, tuple):
            self._last_nodes, self._last_rows = nodes, rows
        return rows


def zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array of zeros whose memory is allocated page by page on first write.

    numpy requests huge pages, so the kernel clears two megabytes on the first write to each. A report writes one row of a
    table of thousands of metrics and nodes: the first report would touch all of it, a second or more.
    """
    count = math.prod(shape)
    size = max(1, count * np.dtype(dtype).itemsize)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, dtype, count).reshape(shape)


Table = npt.NDArray[Any]
"""One value for each metric and row, in that order."""

Array = TypeVar("Array", bound=npt.NDArray[Any])

_BLOCK = 64
"""Rows per allocation."""


class Undo:
    """Copies of table rows, taken before their first write while a snapshot of the store is open: it stays consistent.

    A report may write every metric of its row, so whole rows are copied; copying columns would cost thousands of times
    as much.
    """

    def __init__(self, *tables: Table) -> None:
        self._tables = tables
        self._numbers: dict[int, int] = {}
        """Row → its index among the copies."""
        self._blocks: list[list[Table]] = []
        self._last_positions: tuple[Rows, int, Rows, Rows] | None = None

    def __bool__(self) -> bool:
        """Whether a row was kept."""
        return bool(self._numbers)

    def keep(self, row: int) -> None:
        """Copy a row before it is written, once."""
        if row in self._numbers:
            return
        number = self._numbers[row] = len(self._numbers)
        if number % _BLOCK == 0:
            shapes = [(_BLOCK, len(table)) for table in self._tables]
            pairs = zip(shapes, self._tables, strict=True)
            self._blocks.append([np.empty(shape, table.dtype) for shape, table in pairs])
        for block, table in zip(self._blocks[-1], self._tables, strict=True):
            block[number % _BLOCK] = table[:, row]

    def restored(self, which: int, column: int, rows: Rows, now: Array) -> Array:
        """Return a column of table `which` as it was, given its current values; the same array if it is equal."""
        if not self._numbers:
            return now
        positions, numbers = self._positions(rows)
        before = self._kept(which, column)[numbers]
        if before.tobytes() == now[positions].tobytes():
            return now
        old = now.copy()
        old[positions] = before
        return old

    def _kept(self, which: int, column: int) -> Table:
        parts: Sequence[Table] = [block[which][:, column] for block in self._blocks]
        return np.concatenate(parts)

    def _positions(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return the positions of copied rows among `rows`, and the index of each copy."""
        known, size = self._last_positions, len(self._numbers)
        if known is None or known[0] is not rows or known[1] != size:
            kept = np.fromiter(self._numbers, np.intp, size)
            order = np.full(self._tables[0].shape[1], -1, dtype=np.intp)
            order[kept] = np.arange(size)
            numbers = order[rows]
            positions = (numbers >= 0).nonzero()[0]
            known = self._last_positions = (rows, size, positions, numbers[positions])
        return known[2], known[3]


class Cells:
    """Four tables of shape (columns, rows + 1). Memory is allocated page by page when a cell is first written.

    The last row stays empty: row -1 (unknown node) points to it. Arrays are contiguous per metric, because columns are
    read far more often than rows are written.
    """

    def __init__(self, columns: int, rows: int) -> None:
        shape = (columns, rows + 1)
        self.values: Floats = zeros(shape, np.float64)
        self.samples: Counts = zeros(shape, np.int32)
        """0 without a reading, or NEVER_HAD."""
        self.latest: Floats = zeros(shape, np.float64)
        """Time of a reading older than the node's last report; infinity if it is as new, NEVER if there is none."""
        self.unread: Bools = zeros(shape, np.bool_)

    @property
    def columns(self) -> int:
        """The number of metrics that fit."""
        return len(self.values)

    @property
    def rows(self) -> int:
        """The number of nodes that fit."""
        return int(self.values.shape[1]) - 1

    def clear(self, columns: int | slice, rows: int | slice) -> None:
        """Reset cells to never reported."""
        self.values[columns, rows], self.samples[columns, rows] = np.nan, 0
        self.latest[columns, rows], self.unread[columns, rows] = NEVER, False

    def copy_from(self, other: "Cells", columns: Sequence[int], rows: slice) -> None:
        """Copy these columns of another table to the first columns of this one."""
        target = slice(len(columns))
        self.values[target, rows] = other.values[columns, rows]
        self.samples[target, rows] = other.samples[columns, rows]
        self.latest[target, rows] = other.latest[columns, rows]
        self.unread[target, rows] = other.unread[columns, rows]
        self.clear(target, -1)

    def undo(self, columns: int) -> Undo:
        """Return an object that keeps rows, of the first `columns` metrics, as they are before they change."""
        tables = (self.values, self.samples, self.latest, self.unread)
        return Undo(*(table[:columns] for table in tables))

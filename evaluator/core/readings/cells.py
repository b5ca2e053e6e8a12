"""The tables of the store: a reading for each metric (column) and node (row)."""

from collections.abc import Sequence

import numpy as np

from evaluator.core.readings.column import NEVER, Bools, Counts, Floats
from evaluator.core.readings.lazy_arrays import zeros
from evaluator.core.readings.undo import Undo


class Cells:
    """Four tables of shape (columns, rows + 1). Memory is allocated page by page when a cell is first written.

    The last row stays empty: row -1 (unknown node) points to it. Arrays are contiguous per metric, because columns are
    read far more often than rows are written.
    """

    def __init__(self, columns: int, rows: int) -> None:
        shape = (columns, rows + 1)
        self.values: Floats = zeros(shape, np.float64)
        self.samples: Counts = zeros(shape, np.int32)
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

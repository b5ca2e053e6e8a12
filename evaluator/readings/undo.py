"""What reports overwrite while a snapshot of the store is read, so that its columns stay those of one moment."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from evaluator.readings.row_index import Rows

Table = npt.NDArray[Any]
"""One value for each metric and row, in that order."""

Array = TypeVar("Array", bound=npt.NDArray[Any])

_BLOCK = 64
"""Rows that are kept in one piece."""


class Undo:
    """Rows of some tables as they were before they were first written to.

    A report may write to every metric of its row, so a row is kept whole: copying the columns instead would cost thousands
    of times as much.
    """

    def __init__(self, *tables: Table) -> None:
        self._tables = tables
        self._numbers: dict[int, int] = {}
        """By row, its number among those that are kept."""
        self._blocks: list[list[Table]] = []
        self._found: tuple[Rows, int, Rows, Rows] | None = None

    def __bool__(self) -> bool:
        """Whether a row was kept."""
        return bool(self._numbers)

    def keep(self, row: int) -> None:
        """Copy a row that is going to be written to, unless that was done before."""
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
        """A column of table `which` at some rows as it was, given what is there now; the same array where that is equal."""
        if not self._numbers:
            return now
        places, numbers = self._places(rows)
        before = self._kept(which, column)[numbers]
        if before.tobytes() == now[places].tobytes():
            return now
        old = now.copy()
        old[places] = before
        return old

    def _kept(self, which: int, column: int) -> Table:
        parts: Sequence[Table] = [block[which][:, column] for block in self._blocks]
        return np.concatenate(parts)

    def _places(self, rows: Rows) -> tuple[Rows, Rows]:
        """Where the kept rows are among some rows, and the number of each."""
        known, size = self._found, len(self._numbers)
        if known is None or known[0] is not rows or known[1] != size:
            kept = np.fromiter(self._numbers, np.intp, size)
            order = np.full(self._tables[0].shape[1], -1, dtype=np.intp)
            order[kept] = np.arange(size)
            numbers = order[rows]
            places = (numbers >= 0).nonzero()[0]
            known = self._found = (rows, size, places, numbers[places])
        return known[2], known[3]

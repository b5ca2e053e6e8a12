"""Keeps what reports overwrite while a snapshot of the store is open, so that the snapshot stays consistent."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from evaluator.core.readings.row_index import Rows

Table = npt.NDArray[Any]
"""One value for each metric and row, in that order."""

Array = TypeVar("Array", bound=npt.NDArray[Any])

_BLOCK = 64
"""Rows per allocation."""


class Undo:
    """Copies of table rows, taken before their first write.

    A report may write every metric of its row, so whole rows are copied; copying columns would cost thousands of times
    as much.
    """

    def __init__(self, *tables: Table) -> None:
        self._tables = tables
        self._numbers: dict[int, int] = {}
        """Row → its index among the copies."""
        self._blocks: list[list[Table]] = []
        self._found: tuple[Rows, int, Rows, Rows] | None = None

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
        known, size = self._found, len(self._numbers)
        if known is None or known[0] is not rows or known[1] != size:
            kept = np.fromiter(self._numbers, np.intp, size)
            order = np.full(self._tables[0].shape[1], -1, dtype=np.intp)
            order[kept] = np.arange(size)
            numbers = order[rows]
            positions = (numbers >= 0).nonzero()[0]
            known = self._found = (rows, size, positions, numbers[positions])
        return known[2], known[3]

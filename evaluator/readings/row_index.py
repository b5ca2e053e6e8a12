"""Which row of an array is which node's; a list of nodes is looked up once, however many columns are read over it."""

import copy
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.intp]


class RowIndex:
    """Rows by node name. `find` answers -1 for a node without one."""

    def __init__(self, nodes: Iterable[str] = ()) -> None:
        self.rows: dict[str, int] = {node: row for row, node in enumerate(nodes)}
        self._sought: tuple[str, ...] | None = None
        self._found: Rows = np.zeros(0, np.intp)

    def copy(self) -> "RowIndex":
        """The same rows, whatever becomes of these."""
        made = copy.copy(self)
        made.rows = self.rows.copy()
        return made

    def put(self, node: str, row: int) -> None:
        """This row is that node's from now on."""
        self.rows[node] = row
        self._sought = None

    def drop(self, node: str) -> int | None:
        """Forget a node; the row that was its, if it had one."""
        self._sought = None
        return self.rows.pop(node, None)

    def find(self, nodes: Sequence[str]) -> Rows:
        """The rows of some nodes, in that order. The answer for the last tuple is kept: decide() asks for each metric."""
        if nodes is self._sought:
            return self._found
        rows: Rows = np.array([self.rows.get(node, -1) for node in nodes], dtype=np.intp)
        if isinstance(nodes, tuple):
            self._sought, self._found = nodes, rows
        return rows

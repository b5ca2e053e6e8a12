"""Maps node names to array rows; a list of nodes is looked up once for all columns read over it."""

import copy
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.intp]


class RowIndex:
    """Rows by node name. `find` returns -1 for unknown nodes."""

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

"""Encoded lists of all nodes, reused while the readings are the same."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluator.core.model.node_index import Floats, NodeIndex, Positions

_MOST_BYTES = 64 << 20
"""Bytes of all lists: 50 metrics of 5,000 nodes. The least recently used is dropped first."""
_SAME = 1.0
"""Seconds for which a list is reused if only times of measurements changed; they have whole seconds."""

Key = tuple[str, str]
"""Version and metric."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The usable readings of one metric: positions of their nodes, values, and Unix seconds, all of one shape."""

    nodes: NodeIndex
    positions: Positions
    values: Floats
    seconds: npt.NDArray[np.int64]

    def same_values(self, other: "Measured") -> bool:
        """Whether both have the same values of the same nodes."""
        return (
            self.nodes is other.nodes
            and np.array_equal(self.positions, other.positions)
            and np.array_equal(self.values, other.values)
        )


@dataclass(frozen=True, slots=True)
class _Body:
    measured: Measured
    pieces: Sequence[bytes]
    made: float

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))


class EncodedBodies:
    """Lists by version and metric, in pieces."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes
        self._bodies: OrderedDict[Key, _Body] = OrderedDict()
        self._size = 0

    def find(self, key: Key, measured: Measured, now: float) -> Sequence[bytes] | None:
        """Return the list of these readings at `now` (seconds); None if it must be made."""
        body = self._bodies.get(key)
        if body is None or not body.measured.same_values(measured):
            return None
        if now - body.made >= _SAME and not np.array_equal(body.measured.seconds, measured.seconds):
            return None
        self._bodies.move_to_end(key)
        return body.pieces

    def put(self, key: Key, measured: Measured, pieces: Sequence[bytes], now: float) -> None:
        """Keep a list made of readings of `now` (seconds)."""
        self._drop(key)
        body = self._bodies[key] = _Body(measured, pieces, now)
        self._size += body.size
        while self._size > self._most and len(self._bodies) > 1:
            self._drop(next(iter(self._bodies)))

    def _drop(self, key: Key) -> None:
        if (body := self._bodies.pop(key, None)) is not None:
            self._size -= body.size

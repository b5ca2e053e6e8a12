"""The readings that the custom metrics API serves, as of now, and encoded lists of them."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from evaluator.core.model.arrays import Bools, Floats
from evaluator.core.model.node_index import NodeIndex, Positions
from evaluator.core.policy.decide import Decisions
from evaluator.core.readings.column import NEVER, Column, unknown
from evaluator.core.readings.peer_metrics import peer_metric
from plimsoll.floats import not_finite

_MOST_BYTES = 64 << 20
"""Bytes of all lists: 50 metrics of 5,000 nodes. The least recently used is dropped first."""
_SAME = 1.0
"""Seconds for which a list is reused if only times of measurements changed; they have whole seconds."""

Key = tuple[str, str]
"""Version and metric."""


class Columns(Protocol):
    """The method of readings needed here."""

    def column(self, metric: str, nodes: NodeIndex, now: float) -> Column:
        """Return one metric over some nodes at `now`."""
        ...


@dataclass(frozen=True, slots=True)
class Current:
    """One metric over all nodes. `epoch`: Unix time at 0 of the clock of its times."""

    nodes: NodeIndex
    column: Column
    now: float
    epoch: float

    @property
    def usable(self) -> Bools:
        """Where there is one fresh, finite value."""
        usable: Bools = self.column.usable & np.isfinite(self.column.values)
        return usable

    def not_finite(self, positions: Positions) -> int:
        """Return how many of some nodes have a fresh value that is NaN or infinite."""
        column = self.column
        single = (column.fresh & (column.samples == 1))[positions]
        return int(np.count_nonzero(single & ~np.isfinite(column.values[positions])))

    def measured(self, positions: Positions) -> "Measured":
        """Return the readings at positions where they are `usable`."""
        at = self.column.at[positions]
        at = np.where(at > NEVER, at, self.now)  # a condition whose reporter writes no time
        seconds = np.floor(at + self.epoch).astype(np.int64)
        return Measured(self.nodes, positions, self.column.values[positions], seconds)

    def absence(self, position: int) -> str:
        """Return why a node has no usable reading, as a phrase."""
        column = self.column
        samples, at = int(column.samples[position]), float(column.at[position])
        if at == NEVER:
            return column.fault or "the node has not reported it"
        if not column.fresh[position]:
            return f"its reading is stale, {self.now - at:.0f} s old"
        if samples > 1:
            return f"the node has {samples} series of it"
        if not samples:
            return column.fault or "the node does not have it"
        return f"its value is {not_finite(column.values[position])}"


class CurrentReadings:
    """Reads columns of `readings`; `derived` metrics and peer metrics are those of the `latest` decisions.

    `nodes`: returns the nodes of the cluster. `clock` is the store's, `wall` returns Unix time.
    """

    def __init__(
        self,
        readings: Columns,
        nodes: Callable[[], NodeIndex],
        latest: Callable[[], Decisions],
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
        derived: frozenset[str] = frozenset(),
    ) -> None:
        self._readings = readings
        self._nodes = nodes
        self._latest = latest
        self._clock = clock
        self._wall = wall
        self._derived = derived

    def read(self, metric: str) -> Current:
        """Return a metric of all nodes."""
        now, nodes = self._clock(), self._nodes()
        epoch = self._wall() - now
        table = self._latest().table
        if metric in self._derived | table.derived or peer_metric(metric) is not None:
            column = table.columns.get(metric) or unknown(len(table.nodes), unreported=False)
            return Current(table.nodes, column, now, epoch)
        return Current(nodes, self._readings.column(metric, nodes, now), now, epoch)


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

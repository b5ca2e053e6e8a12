"""Coarse series of readings: minimum, mean and maximum per minute, for each node and each metric that policies name.

A minute of a metric is one array of half-precision numbers, relative to the largest of them: 6 bytes per node, with three
significant digits. Metrics are kept in the order of their names as far as `size` has room for `_LEAST` minutes of each.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.model.arrays import Floats
from evaluator.core.model.node_index import NodeIndex, Positions
from evaluator.core.policy.decide import Decisions
from evaluator.core.policy.evaluate import MetricTable

MINUTE = 60.0
MOST = 360
"""Minutes that are kept: six hours."""
_LEAST = 30
"""Minutes for which there must be room before a further metric is kept."""
_PER_NODE = 6
"""Bytes of a node in a minute."""
_ACCUMULATED = 16
"""Bytes of a node in the current minute."""

_OBJECTS = 300
"""Bytes of the objects of one minute of a metric beside its numbers."""
_SLOT = 150
"""Bytes of the entry of a node."""
_LARGEST = 2.0**15
"""What the largest reading of a minute is stored as: half precision has three digits from 0.00006 to 65,504."""
_FULL = 0.95
"""Share of the size that is used; the rest is for arrays that are being made."""

Halves = npt.NDArray[np.float16]
Singles = npt.NDArray[np.float32]


class Point(NamedTuple):
    """One minute of one node: its begin (Unix seconds), and its readings."""

    at: float
    low: float
    mean: float
    high: float


class _Minute(NamedTuple):
    """One minute of one metric: `values`, shape (3, slots), times `scale` are minimum, mean and maximum; NaN without a reading."""

    number: int
    scale: float
    values: Halves


class _Metric:
    """The minutes of one metric, and sums of the current one."""

    def __init__(self, slots: int) -> None:
        self.minutes: deque[_Minute] = deque()
        self._kept = 0
        """Bytes of the minutes."""
        self._begin(slots)

    def _begin(self, slots: int) -> None:
        self._low: Singles = np.full(slots, np.nan, np.float32)
        self._high: Singles = np.full(slots, np.nan, np.float32)
        self._sum: Singles = np.zeros(slots, np.float32)
        self._count: Singles = np.zeros(slots, np.float32)

    @property
    def size(self) -> int:
        """Bytes."""
        return _ACCUMULATED * len(self._low) + self._kept

    def add(self, values: Floats, slots: Positions) -> None:
        """Take over the readings of nodes in some slots; NaN where there is none."""
        with np.errstate(over="ignore"):
            now = values.astype(np.float32)
        self._low[slots] = np.fmin(self._low[slots], now)
        self._high[slots] = np.fmax(self._high[slots], now)
        usable = ~np.isnan(now)
        self._sum[slots] += np.where(usable, now, 0)
        self._count[slots] += usable

    def end(self, number: int) -> None:
        """Keep the current minute, and begin another one."""
        found = self._count > 0
        with np.errstate(invalid="ignore"):
            mean = np.divide(
                self._sum, self._count, out=np.full_like(self._sum, np.nan), where=found
            )
        stacked = np.stack([self._low, mean, self._high])
        finite = np.abs(stacked[np.isfinite(stacked)])
        scale = (float(finite.max()) / _LARGEST if finite.size else 1.0) or 1.0
        # In double precision: the scale of the smallest readings is none in single precision.
        values = (stacked / np.float64(scale)).astype(np.float16)
        self.minutes.append(_Minute(number, scale, values))
        self._kept += values.nbytes + _OBJECTS
        self._begin(len(self._low))

    def drop(self, number: int) -> None:
        """Drop the minutes up to one."""
        while self.minutes and self.minutes[0].number <= number:
            self._kept -= self.minutes.popleft().values.nbytes + _OBJECTS

    def widen(self, slots: int) -> None:
        """Make room for more slots."""
        more = slots - len(self._low)
        low, high, total, count = self._low, self._high, self._sum, self._count
        self._begin(more)
        self._low, self._high = np.append(low, self._low), np.append(high, self._high)
        self._sum, self._count = np.append(total, self._sum), np.append(count, self._count)

    def forget(self, slot: int) -> None:
        """Remove the readings of a slot, which another node gets."""
        self._low[slot] = self._high[slot] = np.nan
        self._sum[slot] = self._count[slot] = 0
        for one in self.minutes:
            if slot < one.values.shape[1]:
                one.values[:, slot] = np.nan

    def points(self, slot: int, since: float, until: float) -> Iterator[Point]:
        """Yield the minutes of a slot that have readings, the oldest first."""
        for one in self.minutes:
            at = one.number * MINUTE
            if since - MINUTE < at < until and slot < one.values.shape[1]:
                low, mean, high = (one.values[:, slot].astype(np.float64) * one.scale).tolist()
                if mean == mean:
                    yield Point(at, low, mean, high)


class Series:
    """The series of all metrics, within `size` bytes: the oldest minutes are dropped first."""

    def __init__(self, size: int) -> None:
        self.limit = size
        self._metrics: dict[str, _Metric] = {}
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._nodes = NodeIndex()
        self._positions: Positions = np.zeros(0, np.intp)
        self._minute = -1
        self.left_out: Sequence[str] = ()
        """Metrics that are not kept, for want of room."""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(metric.size for metric in self._metrics.values()) + _SLOT * len(self._slots)

    def sample(self, decisions: Decisions, at: float, guard: Guard = UNGUARDED) -> Iterator[None]:
        """Take over the readings of some decisions at a time (Unix seconds), in steps of a metric; `guard`: of each."""
        table = decisions.table
        if (number := int(at // MINUTE)) != self._minute:
            yield from self._end_minute(number)
        yield from self._place(table.nodes)
        wanted = self._chosen(sorted(table.prepared))
        for name in self._metrics.keys() - wanted:
            del self._metrics[name]
            yield
        for name in wanted:
            guard.run(name, partial(self._add, name, table), None)
            yield

    def _add(self, name: str, table: MetricTable) -> None:
        """Take over the readings of a metric."""
        if name not in self._metrics:
            self._metrics[name] = _Metric(self._width)
        self._metrics[name].add(table.prepared[name].values, self._positions)

    @property
    def _width(self) -> int:
        return len(self._slots) + len(self._free)

    def _chosen(self, names: Sequence[str]) -> Sequence[str]:
        """Return the metrics for which there is room, at least one."""
        each = max(1, self._width) * (_LEAST * _PER_NODE + _ACCUMULATED) + _LEAST * _OBJECTS
        most = max(1, self.limit // each)
        self.left_out = names[most:]
        return names[:most]

    def _place(self, nodes: NodeIndex) -> Iterator[None]:
        """Give each node a slot; those of nodes that are gone are used again."""
        if nodes is self._nodes:
            return
        for name in self._slots.keys() - nodes.position.keys():
            self._free.append(self._slots.pop(name))
        before = self._width
        for name in nodes:
            if name not in self._slots:
                slot = self._free.pop() if self._free else self._width
                self._slots[name] = slot
                if slot < before:
                    for metric in self._metrics.values():
                        metric.forget(slot)
                    yield
        self._nodes = nodes
        self._positions = np.array([self._slots[name] for name in nodes], np.intp)
        if self._width != before:
            for metric in self._metrics.values():
                metric.widen(self._width)
                yield

    def _end_minute(self, number: int) -> Iterator[None]:
        """Keep the current minute, if there is one, and drop what is too old or too much."""
        ended, self._minute = self._minute, number
        for metric in self._metrics.values():
            metric.end(ended)
            yield
        while self._metrics and (oldest := self._oldest()) is not None:
            if ended - oldest < MOST and self.size <= _FULL * self.limit:
                return
            for metric in self._metrics.values():
                metric.drop(oldest)
            yield

    def _oldest(self) -> int | None:
        numbers = [m.minutes[0].number for m in self._metrics.values() if m.minutes]
        return min(numbers, default=None)

    def metrics_of(
        self, node: str, metrics: Sequence[str], since: float, until: float
    ) -> Iterator[tuple[str, Sequence[Point]]]:
        """Yield metrics of a node that are kept, with their minutes."""
        slot = self._slots.get(node)
        for name in metrics:
            if slot is not None and (metric := self._metrics.get(name)) is not None:
                yield name, list(metric.points(slot, since, until))

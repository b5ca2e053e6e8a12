"""The interface of readings, bases of views on them, and several sources merged: the first with a fresh reading wins."""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from evaluator.core.model.arrays import Bools, Counts, Floats
from evaluator.core.model.node_index import Positions
from evaluator.core.readings.column import NEVER, Column, SourceMask

AGENTS = "agents"
PROMETHEUS = "prometheus"
"""The sources, as flags and `/explain` name them."""
OF_AGENTS = frozenset({"", AGENTS})
"""What `Column.source_at` returns for readings of agents."""

Part = TypeVar("Part", Floats, Counts, Bools)


class Readings(Protocol):
    """The readings that decisions use: columns, snapshots and housekeeping."""

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """Return one metric over some nodes at `now`."""
        ...

    def snapshot(self, nodes: Sequence[str]) -> AbstractContextManager["Readings"]:
        """Yield a read-only view of the readings as they are now; later reports do not change it.

        The cost does not depend on the number of metrics: columns are copied when they are read.
        """
        ...

    def next_expiry(self, now: float) -> float:
        """Return when a column changes without new input (seconds)."""
        ...

    def resume(self, since: float, now: float) -> None:
        """No reports were received from `since` to `now` (process suspended): nodes fresh before count as unreported."""
        ...

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Keep only these metrics."""
        ...

    def prune(self, nodes: Collection[str], now: float) -> None:
        """Drop nodes other than these."""
        ...


class ReadingsView:
    """Passes readings on. A subclass has further columns, or other ones."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """Return one metric over some nodes at `now`."""
        return self._readings.column(metric, nodes, now)

    @contextlib.contextmanager
    def snapshot(self, nodes: Sequence[str]) -> Iterator[Readings]:
        """Yield the readings of one moment."""
        with self._readings.snapshot(nodes) as readings:
            yield self._over(readings)

    def _over(self, readings: Readings) -> Readings:
        """Return the same view of a snapshot."""
        raise NotImplementedError

    def next_expiry(self, now: float) -> float:
        """Return when a column changes without new input (seconds)."""
        return self._readings.next_expiry(now)

    def resume(self, since: float, now: float) -> None:
        """Record that no reports were received from `since` to `now`."""
        self._readings.resume(since, now)

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Keep only these metrics."""
        self._readings.subscribe(metrics)

    def prune(self, nodes: Collection[str], now: float) -> None:
        """Drop nodes other than these."""
        self._readings.prune(nodes, now)


class FixedReadings:
    """Readings that no report changes while they are used, for tools. A subclass adds `column`."""

    @contextlib.contextmanager
    def snapshot(self, _nodes: Sequence[str]) -> Iterator[Self]:
        """Yield the readings: they do not change."""
        yield self

    def next_expiry(self, _now: float) -> float:
        """Return infinity: the tool itself finds when readings become stale."""
        return np.inf

    def resume(self, since: float, now: float) -> None:
        """Do nothing: time is not suspended."""

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Do nothing: the set of metrics is fixed."""

    def prune(self, nodes: Collection[str], now: float) -> None:
        """Do nothing: the set of nodes is fixed."""


class Merged:
    """Sources by name, the preferred one first. Stateless: each column is merged when it is read.

    Order of preference per node: a fresh reading, a fresh "metric absent", a stale reading, nothing. A node is
    unreported while a preferred source may still report, so that its first report does not reverse a verdict.
    """

    def __init__(self, sources: Mapping[str, Readings]) -> None:
        if not sources:
            raise ValueError("no source of readings")
        self._names = tuple(sources)
        self._sources = tuple(sources.values())

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """Return the best reading of each node, and its source."""
        best = self._sources[0].column(metric, nodes, now)
        origin = np.zeros(len(nodes), np.int8)
        for number, source in enumerate(self._sources[1:], start=1):
            # A fresh reading always wins; usually all or nearly all nodes have one.
            positions = (~(best.fresh & (best.samples > 0))).nonzero()[0]
            if not positions.size:
                break
            other = source.column(metric, nodes, now)
            better = positions[_rank(other, positions) > _rank(best, positions)]
            origin[better] = number
            best = _merge(best, other, better, positions)
        return best._replace(origin=SourceMask(self._names, origin))

    @contextlib.contextmanager
    def snapshot(self, nodes: Sequence[str]) -> Iterator["Merged"]:
        """Yield a snapshot of all sources at one moment."""
        with contextlib.ExitStack() as stack:
            pairs = zip(self._names, self._sources, strict=True)
            yield Merged({name: stack.enter_context(x.snapshot(nodes)) for name, x in pairs})

    def next_expiry(self, now: float) -> float:
        """Return when a column changes without new input (seconds)."""
        return min(source.next_expiry(now) for source in self._sources)

    def resume(self, since: float, now: float) -> None:
        """No reports were received from `since` to `now`."""
        for source in self._sources:
            source.resume(since, now)

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Keep only these metrics."""
        subscribed = frozenset(metrics)
        for source in self._sources:
            source.subscribe(subscribed)

    def prune(self, nodes: Collection[str], now: float) -> None:
        """Drop nodes other than these."""
        for source in self._sources:
            source.prune(nodes, now)


def _rank(column: Column, positions: Positions) -> npt.NDArray[np.int8]:
    """Return 3 for a fresh reading, 2 for fresh but absent, 1 for a stale reading, 0 for nothing."""
    fresh = column.fresh[positions]
    good = np.where(fresh, column.samples[positions] > 0, column.at[positions] > NEVER)
    rank: npt.NDArray[np.int8] = fresh.view(np.int8) * np.int8(2) + good.view(np.int8)
    return rank


def _merge(one: Column, other: Column, better: Positions, unreported: Positions) -> Column:
    """Return `one`, with `other` at the positions `better`; `unreported` is the union at those positions."""
    pending = one.unreported.copy()
    pending[unreported] |= other.unreported[unreported]
    return Column(
        _put(one.values, other.values, better),
        _put(one.samples, other.samples, better),
        _put(one.at, other.at, better),
        _put(one.fresh, other.fresh, better),
        _put(one.unread, other.unread, better),
        pending,
        "; ".join(fault for fault in (one.fault, other.fault) if fault),
        never_had=_never_had(one, other),
    )


def _never_had(one: Column, other: Column) -> Bools | None:
    """Return where no source has the metric, and one of them knows that the node never had it; None if that is not known.

    A source that has the metric of a node which never had it for the other reads it elsewhere: a node may have lost it there.
    """
    found: Bools | None = None
    for source, second in ((one, other), (other, one)):
        if source.never_had is not None:
            if (source.never_had & (second.samples > 0)).any():
                return None
            known = source.never_had & ~second.unread & ~second.unreported
            found = known if found is None else found | known
    return found


def _put(one: Part, other: Part, positions: Positions) -> Part:
    if not positions.size:
        return one
    both = one.copy()
    both[positions] = other[positions]
    return both

"""Readings of several sources as one: per metric and node, the first source that has a fresh reading wins."""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from evaluator.model.node_index import Positions
from evaluator.readings.store import NEVER, Bools, Column, Counts, Floats, SourceMask

AGENTS = "agents"
CUSTOM_METRICS = "custom-metrics"
PROMETHEUS = "prometheus"
"""The sources, as flags and `/explain` name them."""

Part = TypeVar("Part", Floats, Counts, Bools)


class Readings(Protocol):
    """What decisions are made of: columns to read, and the housekeeping around them."""

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """One metric over some nodes at a time."""
        ...

    def snapshot(self, nodes: Sequence[str]) -> AbstractContextManager["Readings"]:
        """The readings of these nodes as they are now, whatever comes until the context ends. Only for reading.

        It takes no longer with more metrics: columns are copied when they are asked for.
        """
        ...

    def next_expiry(self, now: float) -> float:
        """When time alone will change a column."""
        ...

    def resume(self, since: float, now: float) -> None:
        """Nobody has listened from some time after `since` until now: who was fresh then is awaited, as all are at the start."""
        ...

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Keep just these metrics."""
        ...

    def prune(self, nodes: Collection[str], now: float) -> None:
        """These are all nodes there are."""
        ...


class Merged:
    """Sources by name, the preferred one first. Nothing is kept here; each column is put together when it is asked for.

    A fresh reading goes before a fresh "this node has none", that before a stale reading, and that before nothing. A node is
    awaited while a source that would go before the one that has spoken is, so that its first word turns nothing round.
    """

    def __init__(self, sources: Mapping[str, Readings]) -> None:
        if not sources:
            raise ValueError("no source of readings")
        self._names = tuple(sources)
        self._sources = tuple(sources.values())

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """The best that the sources have, node by node, and who it is from."""
        best = self._sources[0].column(metric, nodes, now)
        origin = np.zeros(len(nodes), np.int8)
        for number, source in enumerate(self._sources[1:], start=1):
            # Where there is a fresh reading nothing goes before it: most often that is everywhere, or nearly so.
            places = (~(best.fresh & (best.samples > 0))).nonzero()[0]
            if not places.size:
                break
            other = source.column(metric, nodes, now)
            better = places[_rank(other, places) > _rank(best, places)]
            origin[better] = number
            best = _put_together(best, other, better, places)
        return best._replace(origin=SourceMask(self._names, origin))

    @contextlib.contextmanager
    def snapshot(self, nodes: Sequence[str]) -> Iterator["Merged"]:
        """Of every source at one moment."""
        with contextlib.ExitStack() as stack:
            pairs = zip(self._names, self._sources, strict=True)
            yield Merged({name: stack.enter_context(x.snapshot(nodes)) for name, x in pairs})

    def next_expiry(self, now: float) -> float:
        """When time alone will change a column."""
        return min(source.next_expiry(now) for source in self._sources)

    def resume(self, since: float, now: float) -> None:
        """Nobody has listened for a while."""
        for source in self._sources:
            source.resume(since, now)

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Keep just these metrics."""
        wanted = frozenset(metrics)
        for source in self._sources:
            source.subscribe(wanted)

    def prune(self, nodes: Collection[str], now: float) -> None:
        """These are all nodes there are."""
        for source in self._sources:
            source.prune(nodes, now)


def _rank(column: Column, places: Positions) -> npt.NDArray[np.int8]:
    """3: a fresh reading, 2: fresh, but there is none, 1: an old reading, 0: nothing."""
    fresh = column.fresh[places]
    good = np.where(fresh, column.samples[places] > 0, column.at[places] > NEVER)
    rank: npt.NDArray[np.int8] = fresh.view(np.int8) * np.int8(2) + good.view(np.int8)
    return rank


def _put_together(one: Column, other: Column, better: Positions, unreported: Positions) -> Column:
    """One column, but where `better` the other; and where `awaited`, waiting for either."""
    waits = one.unreported.copy()
    waits[unreported] |= other.unreported[unreported]
    return Column(
        _put(one.values, other.values, better),
        _put(one.samples, other.samples, better),
        _put(one.at, other.at, better),
        _put(one.fresh, other.fresh, better),
        _put(one.unread, other.unread, better),
        waits,
        "; ".join(fault for fault in (one.fault, other.fault) if fault),
    )


def _put(one: Part, other: Part, places: Positions) -> Part:
    if not places.size:
        return one
    both = one.copy()
    both[places] = other[places]
    return both

"""Readings of several sources as one: per metric and node, the first source that has a fresh reading wins."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from evaluator.store import NEVER, Bools, Column, Origin


class Readings(Protocol):
    """What decisions are made of: columns to read, and the housekeeping around them."""

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """One metric over some nodes at a time."""
        ...

    def next_expiry(self, now: float) -> float:
        """When time alone will change a column."""
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
        place = np.zeros(len(nodes), np.int8)
        for number, source in enumerate(self._sources[1:], start=1):
            settled = best.fresh & (best.samples > 0)
            if settled.all():
                break
            other = source.column(metric, nodes, now)
            better = _rank(other) > _rank(best)
            place[better] = number
            best = _put_together(
                best, other, better, awaited=best.awaited | other.awaited & ~settled
            )
        return best._replace(origin=Origin(self._names, place))

    def next_expiry(self, now: float) -> float:
        """When time alone will change a column."""
        return min(source.next_expiry(now) for source in self._sources)

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Keep just these metrics."""
        wanted = frozenset(metrics)
        for source in self._sources:
            source.subscribe(wanted)

    def prune(self, nodes: Collection[str], now: float) -> None:
        """These are all nodes there are."""
        for source in self._sources:
            source.prune(nodes, now)


def _rank(column: Column) -> npt.NDArray[np.int8]:
    """3: a fresh reading, 2: fresh, but there is none, 1: an old reading, 0: nothing."""
    good = np.where(column.fresh, column.samples > 0, column.at > NEVER)
    rank: npt.NDArray[np.int8] = column.fresh.view(np.int8) * np.int8(2) + good.view(np.int8)
    return rank


def _put_together(one: Column, other: Column, better: Bools, *, awaited: Bools) -> Column:
    """One column, but where `better` the other."""
    return Column(
        np.where(better, other.values, one.values),
        np.where(better, other.samples, one.samples),
        np.where(better, other.at, one.at),
        np.where(better, other.fresh, one.fresh),
        np.where(better, other.unread, one.unread),
        awaited,
        "; ".join(fault for fault in (one.fault, other.fault) if fault),
    )

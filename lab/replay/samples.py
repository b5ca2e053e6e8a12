"""Recorded samples of metrics, as flat arrays in the order of time."""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from evaluator.core.model.arrays import Bools, Counts, Floats
from evaluator.core.model.node_index import NodeIndex, Positions
from evaluator.core.readings.column import NEVER, is_fresh
from evaluator.core.readings.tables import NEVER_HAD


class Samples(NamedTuple):
    """The samples of one metric; all arrays have shape (samples,), in the order of time.

    `times`: Unix seconds. `nodes`: positions in the recording's nodes. `counts`: 1 for a value, 0 for a stale marker,
    NEVER_HAD where the node never had the metric, 2 or more for several series, which have no single value.
    """

    times: Floats
    nodes: Positions
    values: Floats
    counts: Counts

    def between(self, begin: float, end: float) -> "Samples":
        """Return the samples in (begin, end]."""
        first, last = np.searchsorted(self.times, [begin, end], side="right")
        part = slice(int(first), int(last))
        return Samples(self.times[part], self.nodes[part], self.values[part], self.counts[part])


class Recording(NamedTuple):
    """Samples of several metrics over a list of nodes. `others`: those of less preferred sources, in order."""

    nodes: NodeIndex
    metrics: Mapping[str, Samples]
    others: Sequence[Mapping[str, Samples]] = ()

    @property
    def sources(self) -> Sequence[Mapping[str, Samples]]:
        """The samples of all sources, the preferred one first."""
        return [self.metrics, *self.others]


class Series(NamedTuple):
    """One series of a metric on a node, with counts as in `Samples`; times ascend."""

    node: int
    times: Floats
    values: Floats
    counts: Counts


class Merge:
    """Merges the series of a metric, in consecutive parts; several series of one node are counted, as in a live answer."""

    def __init__(self, stale_after: float) -> None:
        self._stale_after = stale_after
        self._last: dict[int, dict[Hashable, Series]] = {}
        """Node → the last sample of each of its series before this part."""

    def part(self, series: Mapping[Hashable, Series]) -> Samples:
        """Return the samples of a part. Keys are those of the same series in other parts."""
        by_node: dict[int, dict[Hashable, Series]] = {}
        for key, one in series.items():
            if len(one.times):
                by_node.setdefault(one.node, {})[key] = one
        return _in_time_order([self._node(node, own) for node, own in by_node.items()])

    def _node(self, node: int, own: Mapping[Hashable, Series]) -> Series:
        before = self._last.setdefault(node, {})
        if len(own) == 1 and before.keys() <= own.keys():
            (found,) = own.values()
        else:
            since = max((float(one.times[-1]) for one in before.values()), default=-np.inf)
            whole = [
                _joined([one for one in (before.get(key), own.get(key)) if one is not None])
                for key in {**before, **own}
            ]
            found = _since(_several(node, whole, self._stale_after), since)
        before.update((key, _last_of(one)) for key, one in own.items())
        return found


def merged(series: Sequence[Series], stale_after: float) -> Samples:
    """Return the samples of a metric from its series; several series of one node are counted, as in a live answer."""
    return Merge(stale_after).part(dict(enumerate(series)))


def empty() -> Samples:
    """Return no samples."""
    return Samples(np.zeros(0), np.zeros(0, np.intp), np.zeros(0), np.zeros(0, np.int32))


def consecutive(parts: Sequence[Samples]) -> Samples:
    """Return the samples of consecutive parts as one."""
    if len(parts) == 1:
        return parts[0]
    return Samples(*(np.concatenate(columns) for columns in zip(empty(), *parts, strict=True)))


def _joined(parts: Sequence[Series]) -> Series:
    if len(parts) == 1:
        return parts[0]
    return Series(
        parts[0].node,
        np.concatenate([one.times for one in parts]),
        np.concatenate([one.values for one in parts]),
        np.concatenate([one.counts for one in parts]),
    )


def _since(one: Series, time: float) -> Series:
    """Return the samples after a time."""
    first = int(np.searchsorted(one.times, time, side="right"))
    return Series(one.node, one.times[first:], one.values[first:], one.counts[first:])


def _last_of(one: Series) -> Series:
    return Series(one.node, one.times[-1:].copy(), one.values[-1:].copy(), one.counts[-1:].copy())


def _in_time_order(parts: Sequence[Series]) -> Samples:
    parts = [one for one in parts if len(one.times)]
    if not parts:
        return empty()
    parts = sorted(parts, key=lambda one: float(one.times[0]))
    times = np.concatenate([one.times for one in parts])
    lengths = [len(one.times) for one in parts]
    # The first samples of all nodes, then the second ones, and so on, are nearly in order: sorting that is much faster.
    number = np.concatenate([np.arange(length) for length in lengths])
    narrow = np.uint16 if max(lengths) < 1 << 16 else np.int64
    rough = np.argsort(number.astype(narrow), kind="stable")
    order = rough[np.argsort(times[rough], kind="stable")]
    return Samples(
        times[order],
        np.repeat([one.node for one in parts], lengths)[order],
        np.concatenate([one.values for one in parts])[order],
        np.concatenate([one.counts for one in parts])[order].astype(np.int32),
    )


def _several(node: int, series: Sequence[Series], stale_after: float) -> Series:
    """Merge several series of a node: at each time, the number of series that are not stale, and not absent since."""
    times = np.unique(np.concatenate([one.times for one in series]))
    counts = np.zeros(len(times), np.int32)
    values = np.full(len(times), np.nan)
    latest = [np.searchsorted(one.times, times, side="right") - 1 for one in series]
    absent_at = np.full(len(times), NEVER)
    for one, last in zip(series, latest, strict=True):
        at = np.where((last >= 0) & (one.counts[last] == NEVER_HAD), one.times[last], NEVER)
        np.maximum(absent_at, at, out=absent_at)
    had_at = np.full(len(times), NEVER)
    for one, last in zip(series, latest, strict=True):
        known: Bools = (last >= 0) & (one.counts[last] != NEVER_HAD)
        at = np.where(known, one.times[last], NEVER)
        np.maximum(had_at, at, out=had_at)
        known &= is_fresh(at, times, stale_after) & (one.counts[last] > 0) & (at >= absent_at)
        counts += known
        values[known] = one.values[last][known]
    counts[absent_at > had_at] = NEVER_HAD
    return Series(node, times, np.where(counts == 1, values, np.nan), counts)

"""Recorded samples of one metric: flat arrays in the order of time."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from evaluator.model.node_index import NodeIndex, Positions
from evaluator.readings.column import NEVER, Bools, Counts, Floats


class Samples(NamedTuple):
    """The samples of one metric; all arrays have shape (samples,), in the order of time.

    `times`: Unix seconds. `nodes`: positions in the recording's nodes. `counts`: 1 for a value, 0 where the metric was
    reported as absent, 2 or more for several series, which have no single value.
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
    """Samples of several metrics over a list of nodes."""

    nodes: NodeIndex
    metrics: Mapping[str, Samples]

    @property
    def size(self) -> int:
        """The number of samples."""
        return sum(len(samples.times) for samples in self.metrics.values())

    @property
    def span(self) -> tuple[float, float] | None:
        """The times of the first and the last sample (Unix seconds); None without samples."""
        times = [s.times for s in self.metrics.values() if len(s.times)]
        if not times:
            return None
        return min(float(t[0]) for t in times), max(float(t[-1]) for t in times)


class Series(NamedTuple):
    """One series of a metric on a node; times ascend. A stale marker has count 0."""

    node: int
    times: Floats
    values: Floats
    counts: Counts


def merged(series: Sequence[Series], stale_after: float) -> Samples:
    """Return the samples of a metric from its series; several series of one node are counted, as in a live answer."""
    by_node: dict[int, list[Series]] = {}
    for one in series:
        by_node.setdefault(one.node, []).append(one)
    parts = [
        own[0] if len(own) == 1 else _several(node, own, stale_after)
        for node, own in by_node.items()
    ]
    if not parts:
        return empty()
    times = np.concatenate([one.times for one in parts])
    order = np.argsort(times, kind="stable")
    return Samples(
        times[order],
        np.repeat([one.node for one in parts], [len(one.times) for one in parts])[order],
        np.concatenate([one.values for one in parts])[order],
        np.concatenate([one.counts for one in parts])[order].astype(np.int32),
    )


def empty() -> Samples:
    """Return no samples."""
    return Samples(np.zeros(0), np.zeros(0, np.intp), np.zeros(0), np.zeros(0, np.int32))


def _several(node: int, series: Sequence[Series], stale_after: float) -> Series:
    """Merge several series of a node: at each time, the number of series that are not stale."""
    times = np.unique(np.concatenate([one.times for one in series]))
    counts = np.zeros(len(times), np.int32)
    values = np.full(len(times), np.nan)
    for one in series:
        latest = np.searchsorted(one.times, times, side="right") - 1
        known: Bools = latest >= 0
        at = np.where(known, one.times[latest], NEVER)
        known &= (at >= times - stale_after) & (one.counts[latest] > 0)
        counts += known
        values[known] = one.values[latest][known]
    return Series(node, times, np.where(counts == 1, values, np.nan), counts)

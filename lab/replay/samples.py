"""Recorded samples of one metric, flat arrays in the order of time; aligned with the moments of a replay, a row per moment."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evaluator.core.model.node_index import NodeIndex, Positions
from evaluator.core.policy.types import Operator
from evaluator.core.readings.column import NEVER, Bools, Column, Counts, Floats, is_fresh, unknown
from evaluator.core.readings.merged import FixedReadings


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
    """Samples of several metrics over a list of nodes. `others`: those of less preferred sources, in order."""

    nodes: NodeIndex
    metrics: Mapping[str, Samples]
    others: Sequence[Mapping[str, Samples]] = ()

    @property
    def sources(self) -> Sequence[Mapping[str, Samples]]:
        """The samples of all sources, the preferred one first."""
        return [self.metrics, *self.others]


class Series(NamedTuple):
    """One series of a metric on a node; times ascend. A stale marker has count 0."""

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
    """Merge several series of a node: at each time, the number of series that are not stale."""
    times = np.unique(np.concatenate([one.times for one in series]))
    counts = np.zeros(len(times), np.int32)
    values = np.full(len(times), np.nan)
    for one in series:
        latest = np.searchsorted(one.times, times, side="right") - 1
        known: Bools = latest >= 0
        at = np.where(known, one.times[latest], NEVER)
        known &= is_fresh(at, times, stale_after) & (one.counts[latest] > 0)
        counts += known
        values[known] = one.values[latest][known]
    return Series(node, times, np.where(counts == 1, values, np.nan), counts)


EXPIRY_PAUSE = 0.005
"""Seconds after a reading became stale until it is evaluated, as in the decision loop."""

Comparison = tuple[Operator, float]
"""Operator and target of a rule."""


@dataclass(frozen=True)
class Rows:
    """The readings of one metric at some moments; all arrays have shape (moments, nodes)."""

    values: Floats
    counts: Counts
    at: Floats

    def last(self) -> Samples:
        """Return the readings of the last moment as samples, for the moments that follow."""
        nodes = np.arange(self.values.shape[1])
        return Samples(self.at[-1], nodes, self.values[-1], self.counts[-1])


def never_reported(nodes: int) -> Samples:
    """Return the samples that stand for "never reported" on each node."""
    return Samples(
        np.full(nodes, NEVER), np.arange(nodes), np.full(nodes, np.nan), np.zeros(nodes, np.int32)
    )


def align(before: Samples, samples: Samples, moments: Floats) -> Rows:
    """Return the latest reading of each node at each moment. `before` has one sample per node: the readings so far."""
    nodes = len(before.nodes)
    latest = np.zeros((len(moments), nodes), np.int64)
    latest[0] = np.arange(nodes)
    # A later sample of the same node and moment overwrites an earlier one; samples after the last moment are dropped.
    ends = np.searchsorted(samples.times, moments, side="right")
    rows = np.repeat(np.arange(len(moments)), np.diff(ends, prepend=0))
    cells = rows * nodes + samples.nodes[: len(rows)]
    latest.reshape(-1)[cells] = np.arange(nodes, nodes + len(rows))
    np.maximum.accumulate(latest, axis=0, out=latest)  # positions ascend with time
    every = [np.concatenate([row, other]) for row, other in zip(before, samples, strict=True)]
    return Rows(every[2].take(latest), every[3].take(latest), every[0].take(latest))


def preferred(sources: Sequence[Rows], moments: Floats, stale_after: float) -> Rows:
    """Return the reading of each cell from the first source with a fresh value, else the one that is least missing."""
    best = sources[0]
    for other in sources[1:]:
        better = _rank(other, moments, stale_after) > _rank(best, moments, stale_after)
        best = Rows(
            np.where(better, other.values, best.values),
            np.where(better, other.counts, best.counts),
            np.where(better, other.at, best.at),
        )
    return best


def _rank(rows: Rows, moments: Floats, stale_after: float) -> npt.NDArray[np.int8]:
    """Return the order of `readings.merged`: a fresh reading, fresh but absent, stale, nothing."""
    fresh = is_fresh(rows.at, moments[:, None], stale_after)
    known = np.where(fresh, rows.counts > 0, rows.at > NEVER)
    return fresh.astype(np.int8) * np.int8(2) + known.astype(np.int8)


def expiries(rows: Sequence[Rows], moments: Floats, stale_after: float) -> Floats:
    """Return when readings become stale between two moments, sorted."""
    found = []
    for one in rows:
        ends = one.at[:-1] + (stale_after + EXPIRY_PAUSE)
        inside = (ends > moments[:-1, None]) & (ends < moments[1:, None])
        found.append(np.unique(ends[inside]))
    return np.unique(np.concatenate(found)) if found else np.zeros(0)


def changes(
    rows: Rows,
    moments: Floats,
    stale_after: float,
    comparisons: Sequence[Comparison],
    *,
    by_value: bool,
) -> Bools:
    """Return at which moments a rule may see something else than at the one before, shape (moments,); True at the first.

    `by_value`: a label depends on the values themselves.
    """
    fresh = is_fresh(rows.at, moments[:, None], stale_after)
    parts: list[npt.NDArray[np.bool_]] = [fresh, rows.at == NEVER, np.isnan(rows.values)]
    for operator, target in comparisons:
        match operator:
            case Operator.LESS_THAN:
                parts.append(rows.values < target)
            case Operator.GREATER_THAN:
                parts.append(rows.values > target)
            case Operator.EQUALS:
                parts.append(rows.values == target)
    changed = np.zeros(len(moments), bool)
    changed[0] = True
    differs = [(part[1:] != part[:-1]).any(axis=1) for part in parts]
    differs.append((rows.counts[1:] != rows.counts[:-1]).any(axis=1))
    if by_value:
        differs.append((rows.values[1:] != rows.values[:-1]).any(axis=1))
    changed[1:] = np.logical_or.reduce(differs)
    return changed


def fresh_nodes(rows: Mapping[str, Rows], moments: Floats, stale_after: float) -> Bools:
    """Return at which moments any node has a fresh reading of any metric, shape (moments,)."""
    found = np.zeros(len(moments), bool)
    for one in rows.values():
        found |= is_fresh(one.at, moments[:, None], stale_after).any(axis=1)
    return found


class RecordedReadings(FixedReadings):
    """Row `row` of recorded readings. As in the store, nodes without any reading are unreported until `expected_until`."""

    def __init__(
        self, rows: Mapping[str, Rows], row: int, *, stale_after: float, expected_until: float
    ) -> None:
        self._rows = rows
        self._row = row
        self._stale_after = stale_after
        self._expected_until = expected_until

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """Return one metric over all nodes of the recording at `now`; read-only."""
        starting, size = now < self._expected_until, len(nodes)
        rows = self._rows.get(metric)
        if rows is None:
            return unknown(size, unreported=starting)
        at = rows.at[self._row]
        unreported = at == NEVER if starting else np.zeros(size, bool)
        return Column(
            rows.values[self._row],
            rows.counts[self._row],
            at,
            is_fresh(at, now, self._stale_after),
            np.zeros(size, bool),
            unreported,
        )

"""Readings at the moments of a replay: one row per moment, one column per node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluator.core.model.arrays import Bools, Counts, Floats
from evaluator.core.policy.types import Operator
from evaluator.core.readings.column import NEVER, Column, is_fresh, unknown
from evaluator.core.readings.merged import FixedReadings
from evaluator.core.readings.tables import NEVER_HAD
from lab.replay.samples import Samples

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
            _counts(best, other, better),
            np.where(better, other.at, best.at),
        )
    return best


def _counts(best: Rows, other: Rows, better: Bools) -> Counts:
    """Return the counts of the better source; a metric that the other one has, even stale, is not absent."""
    chosen, second = (np.where(which, other.counts, best.counts) for which in (better, ~better))
    chosen[(chosen == NEVER_HAD) & (second > 0)] = 0
    return chosen


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
        at, counts = rows.at[self._row], rows.counts[self._row]
        fresh = is_fresh(at, now, self._stale_after)
        never_had = fresh & (counts == NEVER_HAD)
        unreported = at == NEVER if starting else np.zeros(size, bool)
        return Column(
            rows.values[self._row],
            np.maximum(counts, 0),
            at,
            fresh,
            np.zeros(size, bool),
            unreported,
            never_had=never_had if never_had.any() else None,
        )

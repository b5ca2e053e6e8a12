"""Recorded readings at one moment, with the interface that decisions read."""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from evaluator.core.readings.column import NEVER, Column, is_fresh, unknown
from evaluator.tools.replay.grid import Rows


class RecordedReadings:
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

    @contextlib.contextmanager
    def snapshot(self, _nodes: Sequence[str]) -> Iterator["RecordedReadings"]:
        """Yield the readings: they do not change."""
        yield self

    def next_expiry(self, _now: float) -> float:
        """Return infinity: the replay itself finds when readings become stale."""
        return np.inf

    def resume(self, since: float, now: float) -> None:
        """Do nothing: a replay is not suspended."""

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Do nothing: a recording has a fixed set of metrics."""

    def prune(self, nodes: Collection[str], now: float) -> None:
        """Do nothing: a recording has a fixed set of nodes."""

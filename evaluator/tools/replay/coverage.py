"""How complete the recorded data are: missing readings, and gaps in which the source had no data of any node."""

from collections.abc import Iterable

import numpy as np

from evaluator.core.readings.column import is_fresh
from evaluator.core.replay import Period
from evaluator.tools.replay import grid
from evaluator.tools.replay.replay import Block


class Coverage:
    """Missing readings by metric; gaps of the source are counted apart."""

    def __init__(self, period: Period, stale_after: float, nodes: int) -> None:
        self._period = period
        self._stale_after = stale_after
        self._nodes = nodes
        self.missing_seconds: dict[str, float] = {}
        """Node-seconds without a usable reading outside gaps, by metric."""
        self.seconds = 0.0
        """Seconds of the range outside gaps."""
        self.gaps: list[tuple[float, float]] = []
        """Times without a fresh reading of any node (Unix seconds)."""

    def block(self, block: Block) -> None:
        """Add a block of moments."""
        moments = block.moments
        lengths = np.diff(moments.clip(self._period.begin, self._period.end))
        any_fresh = grid.fresh_nodes(block.rows, moments, self._stale_after)[:-1]
        self.seconds += float(lengths @ any_fresh)
        for begin, end in zip(
            moments[:-1][~any_fresh & (lengths > 0)].tolist(),
            moments[1:][~any_fresh & (lengths > 0)].tolist(),
            strict=True,
        ):
            self._add_gap(max(begin, self._period.begin), min(end, self._period.end))
        for metric, rows in block.rows.items():
            usable = (
                is_fresh(rows.at, moments[:, None], self._stale_after)
                & (rows.counts == 1)
                & ~np.isnan(rows.values)
            )
            lacking = self._nodes - np.count_nonzero(usable[:-1], axis=1)
            self.missing_seconds[metric] = self.missing_seconds.get(metric, 0.0) + float(
                lengths @ (lacking * any_fresh)
            )

    def _add_gap(self, begin: float, end: float) -> None:
        if self.gaps and self.gaps[-1][1] == begin:
            begin = self.gaps.pop()[0]
        self.gaps.append((begin, end))

    @property
    def gap_seconds(self) -> float:
        """The length of all gaps."""
        return sum(end - begin for begin, end in self.gaps)

    def missing_share(self, metrics: Iterable[str]) -> float:
        """Return the share of readings of these metrics that are missing, gaps of the source left out; NaN without data."""
        found = [self.missing_seconds.get(metric, np.nan) for metric in metrics]
        total = self.seconds * self._nodes * len(found)
        return sum(found) / total if total else np.nan

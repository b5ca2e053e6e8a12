"""Recordings from OpenMetrics files, in parts: memory does not grow with their length."""

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from evaluator.backtest.run import Resources
from evaluator.backtest.samples import Merge, Recording
from evaluator.cli.backtest.openmetrics import SeriesTable, TextSeries
from evaluator.cli.backtest.recording import Joined, allocatable, joined, names_of, one_series
from evaluator.cli.backtest.source import BacktestError, Request
from evaluator.cli.backtest.spill import Piece, Spill

_PART = 4_000_000
"""Samples of one part."""


class Dump:
    """A source of recordings: the samples of all files, which were read."""

    def __init__(
        self,
        series: Sequence[TextSeries],
        join: Joined,
        spill: Spill,
        request: Request,
        *,
        part: int,
    ) -> None:
        """`join` has at least one series. `part`: samples of one part. Raises BacktestError."""
        self._most = part
        self._spill = spill
        self._join = join
        self._stale_after = request.stale_after
        known = [series[number] for own in join.metrics.values() for number, _ in own]
        first = min(one.first for one in known)
        self.period = request.period(first, max(one.last for one in known))
        self.start = max(self.period.begin - request.warm_up, min(first, self.period.begin))
        self.nodes = join.nodes
        self.allocatable: Resources = allocatable(series)

    def close(self) -> None:
        """Delete temporary files."""
        self._spill.close()

    def parts(self) -> Iterator[tuple[Recording, float]]:
        """Yield consecutive parts. Raises BacktestError."""
        merges = {metric: Merge(self._stale_after) for metric in self._join.metrics}
        until, pieces = self.start, list[Piece]()
        for hours in self._spill.parts(self._most):
            if hours.end <= self.start - self._stale_after:
                continue
            pieces += hours.pieces
            until = min(hours.end, self.period.end)
            if hours.end > self.start:
                yield self._part(pieces, merges), until
                pieces = []
            if hours.end >= self.period.end:
                return
        yield self._part(pieces, merges), self.period.end

    def _part(self, pieces: list[Piece], merges: Mapping[str, Merge]) -> Recording:
        try:
            found = self._spill.read(pieces)
        except OSError as error:
            raise BacktestError(f"temporary file: {error.strerror}") from error
        metrics = {
            metric: merges[metric].part(
                {
                    number: one_series(node, *found[number])
                    for number, node in own
                    if number in found
                }
            )
            for metric, own in self._join.metrics.items()
        }
        return Recording(self.nodes, metrics)


def read_files(files: Collection[str], request: Request, *, part: int = _PART) -> Dump:
    """Read OpenMetrics files. `part`: samples of one part. Raises BacktestError, OpenMetricsError."""
    spill = Spill()
    try:
        series = _read(files, request, spill)
        join = joined(series, request.metrics, request.node_label)
        if not any(join.metrics.values()):
            raise BacktestError(
                f"{', '.join(files)}: no line is a sample of {', '.join(sorted(request.metrics))} on a node: dump these series, "
                "with their labels node or instance"
            )
        return Dump(series, join, spill, request, part=part)
    except BaseException:
        spill.close()
        raise


def _read(files: Collection[str], request: Request, spill: Spill) -> Sequence[TextSeries]:
    def take(table: SeriesTable) -> None:
        try:
            for number, one in enumerate(table.series):
                if one.times:
                    spill.add(number, *one.take())
        except OSError as error:
            raise BacktestError(
                f"temporary file in {tempfile.gettempdir()}: {error.strerror}: name another folder by TMPDIR; a sample takes "
                "16 bytes"
            ) from error

    table = SeriesTable(names_of(request.metrics).__contains__, on_full=take)
    for name in files:
        try:
            with Path(name).open("rb") as file:
                table.read(name, file)
        except OSError as error:
            raise BacktestError(f"{name}: cannot be read: {error.strerror}") from error
    take(table)
    return table.series

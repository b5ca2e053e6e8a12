"""Recordings from OpenMetrics files, in parts: memory does not grow with their length."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from evaluator.backtest.run import Resources
from evaluator.backtest.samples import Merge, Recording, consecutive
from evaluator.cli.backtest.inputs import cache
from evaluator.cli.backtest.inputs.content import Content, Metrics, Part
from evaluator.cli.backtest.inputs.openmetrics import SeriesTable, TextSeries
from evaluator.cli.backtest.inputs.recording import (
    Joined,
    allocatable,
    joined,
    names_of,
    one_series,
)
from evaluator.cli.backtest.inputs.rules import NO_RULES, Rules
from evaluator.cli.backtest.inputs.source import BacktestError, Request
from evaluator.cli.backtest.inputs.spill import Piece, Spill

_PART = 4_000_000
"""Samples of one part."""


class Dump:
    """A source of recordings: the content of files."""

    warnings: Sequence[str] = ()

    def __init__(self, content: Content, request: Request) -> None:
        """Raises BacktestError."""
        self._content = content
        self._stale_after = request.stale_after
        first = content.first
        self.period = request.period(first, content.last)
        self.start = max(self.period.begin - request.warm_up, min(first, self.period.begin))
        self.nodes = content.nodes
        self.allocatable: Resources = content.allocatable

    def close(self) -> None:
        """Delete temporary files."""
        self._content.close()

    def parts(self) -> Iterator[tuple[Recording, float]]:
        """Yield consecutive parts. Raises BacktestError."""
        waiting = list[Metrics]()
        for end, load in self._content.parts():
            if end <= self.start - self._stale_after:
                continue
            waiting.append(load())
            if end > self.start:
                yield self._recording(waiting), min(end, self.period.end)
                waiting = []
            if end >= self.period.end:
                return
        yield self._recording(waiting), self.period.end

    def _recording(self, parts: Sequence[Metrics]) -> Recording:
        metrics = {name for part in parts for name in part}
        found = {name: consecutive([part[name] for part in parts]) for name in metrics}
        return Recording(self.nodes, found)


def read_files(
    files: Sequence[str],
    request: Request,
    *,
    rules: Rules = NO_RULES,
    cached: str = "",
    part: int = _PART,
) -> Dump:
    """Read OpenMetrics files. `rules`: to evaluate over them. `cached`: a folder of caches. `part`: samples of one part.

    Raises BacktestError, OpenMetricsError.
    """
    if not cached:
        content = _read(files, request, rules, part)
    else:
        folder = cache.folder_of(cached, files, request, rules)
        if not folder.exists():
            text = _read(files, request, rules, part)
            try:
                cache.write(folder, text)
            finally:
                text.close()
        content = cache.read(folder)
    try:
        return Dump(content, request)
    except BaseException:
        content.close()
        raise


def _read(files: Sequence[str], request: Request, rules: Rules, part: int) -> Content:
    """Read the samples of text files into memory or a temporary file. Raises BacktestError, OpenMetricsError."""
    spill = Spill()
    try:
        series = _series(files, request, rules, spill)
        join = joined(series, request.metrics, request.node_label)
        if not any(join.metrics.values()):
            raise BacktestError(
                f"{', '.join(files)}: no line is a sample of {', '.join(sorted(request.metrics))} on a node: dump these series, "
                "with their labels node or instance"
            )
    except BaseException:
        spill.close()
        raise
    known = [series[number] for own in join.metrics.values() for number, _ in own]
    return Content(
        min(one.first for one in known),
        max(one.last for one in known),
        join.nodes,
        allocatable(series),
        partial(_parts, join, spill, part, request.stale_after),
        spill.close,
    )


def _series(
    files: Sequence[str], request: Request, rules: Rules, spill: Spill
) -> Sequence[TextSeries]:
    """Read all series; their samples are in `spill`, by the position of the series."""
    found: list[TextSeries] = []

    def take(table: SeriesTable) -> None:
        try:
            for number, one in enumerate(table.series, start=len(found)):
                if one.times:
                    spill.add(number, *one.take())
        except OSError as error:
            raise BacktestError(
                f"temporary file in {tempfile.gettempdir()}: {error.strerror}: name another folder by TMPDIR; a sample takes "
                "16 bytes"
            ) from error

    table = SeriesTable((names_of(request.metrics) - rules.records).__contains__, on_full=take)
    for name in files:
        try:
            with Path(name).open("rb") as file:
                table.read(name, file)
        except OSError as error:
            raise BacktestError(f"{name}: cannot be read: {error.strerror}") from error
    take(table)
    found += table.series
    if rules.records:
        table = SeriesTable(rules.records.__contains__, on_full=take)
        with rules.evaluated(files) as results:
            table.read("recording rules", results)
        take(table)
        found += table.series
    return found


def _parts(join: Joined, spill: Spill, most: int, stale_after: float) -> Iterator[Part]:
    merges = {metric: Merge(stale_after) for metric in join.metrics}

    def load(pieces: list[Piece]) -> Metrics:
        try:
            found = spill.read(pieces)
        except OSError as error:
            raise BacktestError(f"temporary file: {error.strerror}") from error
        return {
            metric: merges[metric].part(
                {n: one_series(node, *found[n]) for n, node in own if n in found}
            )
            for metric, own in join.metrics.items()
        }

    for hours in spill.parts(most):
        loaded: Callable[[], Metrics] = partial(load, hours.pieces)
        yield hours.end, loaded

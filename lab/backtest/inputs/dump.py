"""Recordings from OpenMetrics files, in parts: memory does not grow with their length.

Samples of many series are kept by hour, in memory or, if they are many, in a temporary file.
"""

import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from evaluator.core.model.arrays import Floats
from evaluator.core.model.node_index import NodeIndex, Positions
from evaluator.core.readings.column import is_fresh
from lab.backtest.inputs import cache
from lab.backtest.inputs.cache import Content, Metrics, Part, Sample
from lab.backtest.inputs.openmetrics import SeriesTable, TextSeries
from lab.backtest.inputs.rules import NO_RULES, Rules
from lab.backtest.inputs.source import (
    BacktestError,
    Joined,
    Request,
    allocatable,
    joined,
    names_of,
    one_series,
)
from lab.replay.run import Resources
from lab.replay.samples import Merge, Recording, consecutive
from plimsoll.files import userfile

HOUR = 3600.0
_IN_MEMORY = 64 << 20
"""Bytes from which on samples are in a file."""

Piece = tuple[int, int, int]
"""The number of a series, the offset of its times and then its values, and how many there are."""
_PART = 4_000_000
"""Samples of one part."""


class Hours(NamedTuple):
    """The hours up to `end` (Unix seconds, included), and the pieces of series in them."""

    end: float
    pieces: list[Piece]


class Spill:
    """A file of times and values; series are numbered by the caller."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="plimsoll-backtest-")  # noqa: SIM115
        self._size = 0
        self._hours: dict[int, list[Piece]] = {}

    def close(self) -> None:
        """Delete the file."""
        self._file.close()

    def add(self, number: int, times: Floats, values: Floats) -> None:
        """Add samples of a series, in the order of time. Raises OSError."""
        hours = np.ceil(times / HOUR).astype(np.int64)
        cuts = [0, *(np.flatnonzero(np.diff(hours)) + 1).tolist(), len(times)]
        parts: list[bytes] = []
        for begin, end in itertools.pairwise(cuts):
            piece = (number, self._size, end - begin)
            self._hours.setdefault(int(hours[begin]), []).append(piece)
            parts += (times[begin:end].tobytes(), values[begin:end].tobytes())
            self._size += 16 * (end - begin)
        self._file.write(b"".join(parts))

    def parts(self, most: int) -> Iterator[Hours]:
        """Yield consecutive hours with about `most` samples."""
        pieces: list[Piece] = []
        samples = end = 0
        for hour in sorted(self._hours):
            own = self._hours[hour]
            count = sum(length for _, _, length in own)
            if pieces and samples + count > most:
                yield Hours(end * HOUR, pieces)
                pieces, samples = [], 0
            pieces, samples, end = pieces + own, samples + count, hour
        if pieces:
            yield Hours(end * HOUR, pieces)

    def read(self, pieces: list[Piece]) -> dict[int, tuple[Floats, Floats]]:
        """Return times and values of each series. Raises OSError."""
        by_number: dict[int, list[Floats]] = {}
        for number, offset, length in sorted(pieces, key=lambda piece: piece[1]):
            self._file.seek(offset)
            both = np.frombuffer(self._file.read(16 * length), np.float64).reshape(2, length)
            by_number.setdefault(number, []).append(both)
        return {number: _in_order(np.concatenate(own, axis=1)) for number, own in by_number.items()}


def _in_order(both: Floats) -> tuple[Floats, Floats]:
    """Sort samples of several files by time."""
    if (both[0, 1:] < both[0, :-1]).any():
        both = both[:, np.argsort(both[0], kind="stable")]
    return both[0], both[1]


class Dump:
    """A source of recordings: the content of files. Several contents are sources of readings, the preferred one first."""

    warnings: Sequence[str] = ()

    def __init__(self, contents: Sequence[Content], request: Request) -> None:
        """Raises BacktestError."""
        self._contents = contents
        self._stale_after = request.stale_after
        first = min(content.first for content in contents)
        last = max(content.last for content in contents)
        ends = f"; the first sample is {first}, the last one {last}"
        self.period = request.period(first.time, last.time, ends=ends)
        self.start = max(self.period.begin - request.warm_up, min(first.time, self.period.begin))
        self.nodes = NodeIndex(sorted({node for content in contents for node in content.nodes}))
        self.allocatable: Resources = {
            node: amounts
            for content in reversed(contents)
            for node, amounts in content.allocatable.items()
        }
        self.sources = len(contents)

    def close(self) -> None:
        """Delete temporary files."""
        for content in self._contents:
            content.close()

    def parts(self) -> Iterator[tuple[Recording, float]]:
        """Yield consecutive parts. Raises BacktestError."""
        sources = [self._consecutive(content) for content in self._contents]
        parts = [next(source) for source in sources]
        while True:
            until = min(end for _, end in parts)
            yield Recording(self.nodes, parts[0][0], [metrics for metrics, _ in parts[1:]]), until
            if until >= self.period.end:
                return
            # A part of a source that reaches further stays: a replay reads only what follows the last part.
            parts = [
                next(source) if part[1] == until else part
                for source, part in zip(sources, parts, strict=True)
            ]

    def _consecutive(self, content: Content) -> Iterator[tuple[Metrics, float]]:
        """Yield consecutive parts of one content; the first one ends after the start, the last one at the end."""
        waiting = list[Metrics]()
        moved = [self.nodes.position[node] for node in content.nodes]
        same = self.nodes == content.nodes
        positions = None if same else np.array(moved, dtype=np.intp)
        for end, load in content.parts():
            if not is_fresh(end, self.start, self._stale_after):
                continue
            waiting.append(load())
            if end > self.start:
                yield _joined_parts(waiting, positions), min(end, self.period.end)
                waiting = []
            if end >= self.period.end:
                return
        yield _joined_parts(waiting, positions), self.period.end


def _joined_parts(parts: Sequence[Metrics], positions: Positions | None) -> Metrics:
    """Return consecutive parts as one. `positions`: the new position of each node; None if they stay."""
    metrics = {name for part in parts for name in part}
    by_metric = {name: consecutive([part[name] for part in parts]) for name in metrics}
    if positions is None:
        return by_metric
    return {
        name: samples._replace(nodes=positions[samples.nodes])
        for name, samples in by_metric.items()
    }


def read_sources(
    sources: Sequence[Sequence[str]],
    request: Request,
    *,
    rules: Rules = NO_RULES,
    cached: str = "",
    part: int = _PART,
) -> Dump:
    """Read OpenMetrics files of several sources, the preferred one first.

    `rules`: to evaluate over the files of each. `cached`: a folder of caches. `part`: samples of one part.

    Raises BacktestError, OpenMetricsError.
    """
    contents: list[Content] = []
    try:
        for files in sources:
            contents.append(_content(files, request, rules, cached, part))  # noqa: PERF401 (closed on an error)
        return Dump(contents, request)
    except BaseException:
        for content in contents:
            content.close()
        raise


def _content(
    files: Sequence[str], request: Request, rules: Rules, cached: str, part: int
) -> Content:
    """Read the files of one source. Raises BacktestError, OpenMetricsError."""
    if not cached:
        return _read(files, request, rules, part)
    folder = cache.folder_of(cached, files, request, rules)
    if not folder.exists():
        text = _read(files, request, rules, part)
        try:
            cache.write(folder, text)
        finally:
            text.close()
    return cache.read(folder)


def _read(files: Sequence[str], request: Request, rules: Rules, part: int) -> Content:
    """Read the samples of text files into memory or a temporary file. Raises BacktestError, OpenMetricsError."""
    spill = Spill()
    try:
        series = _series(files, request, rules, spill)
        join = joined(series, request.metrics, request.node_label)
        if not any(join.metrics.values()):
            raise BacktestError(
                f"{', '.join(files)}: no line is a sample of {', '.join(sorted(request.metrics))} on a node: dump these series, "
                "with their labels node or instance, or name the recording rules that compute them with --rules.file"
            )
    except BaseException:
        spill.close()
        raise
    known = [series[number] for own in join.metrics.values() for number, _ in own]
    return Content(
        min(Sample(each.first, each.text) for each in known),
        max(Sample(each.last, each.text) for each in known),
        join.nodes,
        allocatable(series),
        partial(_parts, join, spill, part, request.stale_after),
        spill.close,
    )


def _series(
    files: Sequence[str], request: Request, rules: Rules, spill: Spill
) -> Sequence[TextSeries]:
    """Read all series; their samples are in `spill`, by the position of the series."""
    known: list[TextSeries] = []

    def take(table: SeriesTable) -> None:
        try:
            for number, series in enumerate(table.series, start=len(known)):
                if series.times:
                    spill.add(number, *series.take())
        except OSError as error:
            raise BacktestError(
                f"temporary file in {tempfile.gettempdir()}: {error.strerror}: name another folder by TMPDIR; a sample takes "
                "16 bytes"
            ) from error

    table = SeriesTable((names_of(request.metrics) - rules.records).__contains__, on_full=take)
    for name in files:
        try:
            with userfile.open_binary(name) as file:
                table.read(name, file)
        except OSError as error:
            raise BacktestError(f"{name}: cannot be read: {error.strerror}") from error
    take(table)
    known += table.series
    if rules.records:
        table = SeriesTable(rules.records.__contains__, on_full=take)
        with rules.evaluated(files) as results:
            table.read("recording rules", results)
        take(table)
        known += table.series
    return known


def _parts(join: Joined, spill: Spill, most: int, stale_after: float) -> Iterator[Part]:
    merges = {metric: Merge(stale_after) for metric in join.metrics}

    def load(pieces: list[Piece]) -> Metrics:
        try:
            by_number = spill.read(pieces)
        except OSError as error:
            raise BacktestError(f"temporary file: {error.strerror}") from error
        return {
            metric: merges[metric].part(
                {
                    n: one_series(node, *by_number[n], absent=n in join.absent)
                    for n, node in own
                    if n in by_number
                }
            )
            for metric, own in join.metrics.items()
        }

    for hours in spill.parts(most):
        loaded: Callable[[], Metrics] = partial(load, hours.pieces)
        yield hours.end, loaded

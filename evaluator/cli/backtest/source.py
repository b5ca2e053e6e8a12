"""Where a backtest reads from: the range, the nodes, and the recording in consecutive parts."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from evaluator.backtest.intervals import Period
from evaluator.backtest.run import Resources
from evaluator.backtest.samples import Recording
from evaluator.cli.backtest import times
from evaluator.cli.backtest.openmetrics import SeriesTable
from evaluator.cli.backtest.recording import names_of, recorded
from evaluator.model.node_index import NodeIndex
from plimsoll.text import SentenceError


class BacktestError(SentenceError):
    """The backtest cannot run; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to read: metrics, and the range as written in the arguments.

    `warm_up`: seconds before the range that its first decisions depend on.
    """

    metrics: Collection[str]
    begin: str
    end: str
    step: float
    stale_after: float
    warm_up: float
    node_label: str

    def period(self, first: float | None, last: float) -> Period:
        """Return the range. `first` and `last`: the defaults of its ends. Raises BacktestError."""
        try:
            end = times.moment(self.end, last) if self.end else last
            begin = times.moment(self.begin, end) if self.begin else first
        except ValueError as error:
            raise BacktestError(f"--from or --to: {error}") from error
        if begin is None:
            raise BacktestError("--from is missing: say how far back to go, such as --from 7d")
        if not begin < end:
            raise BacktestError("--from is not before --to: the range is empty")
        return Period(begin, end)


class Source(Protocol):
    """A recording in consecutive parts."""

    @property
    def period(self) -> Period:
        """The range."""
        ...

    @property
    def start(self) -> float:
        """When the replay begins (Unix seconds)."""
        ...

    @property
    def nodes(self) -> NodeIndex:
        """All nodes of the recording."""
        ...

    @property
    def allocatable(self) -> Resources:
        """The resources of nodes, if known."""
        ...

    def parts(self) -> Iterator[tuple[Recording, float]]:
        """Yield consecutive parts and their ends (Unix seconds)."""
        ...


@dataclass(frozen=True, slots=True)
class Dump:
    """OpenMetrics files, read at once."""

    period: Period
    start: float
    recording: Recording
    allocatable: Resources = field(default_factory=dict)

    @property
    def nodes(self) -> NodeIndex:
        """The nodes of all samples."""
        return self.recording.nodes

    def parts(self) -> Iterator[tuple[Recording, float]]:
        """Yield the whole recording."""
        yield self.recording, self.period.end


def read_files(files: Collection[str], request: Request) -> Dump:
    """Read OpenMetrics files. Raises BacktestError, OpenMetricsError."""
    table = SeriesTable(names_of(request.metrics).__contains__)
    for name in files:
        try:
            with Path(name).open("rb") as file:
                table.read(name, file)
        except OSError as error:
            raise BacktestError(f"{name}: cannot be read: {error.strerror}") from error
    found = recorded(table.series, request.metrics, request.node_label, request.stale_after)
    span = found.recording.span
    if span is None:
        raise BacktestError(
            f"{', '.join(files)}: of {table.lines:,} lines, none is a sample of {', '.join(sorted(request.metrics))} on a "
            "node: dump these series, with their labels node or instance"
        )
    period = request.period(*span)
    start = max(period.begin - request.warm_up, min(span[0], period.begin))
    return Dump(period, start, found.recording, found.allocatable)

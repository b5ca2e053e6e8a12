"""Snapshots: the samples of a group's storage as plain numbers, for the state file or for another storage."""

from array import array
from dataclasses import dataclass
from itertools import pairwise

from agent.rules.promql.labels import NAME, Labels
from plimsoll.text import SentenceError

_MOST = 1 << 31  # ticks: 68 years of seconds, half of what four bytes hold


class SnapshotError(SentenceError):
    """Numbers are not a valid snapshot."""


@dataclass(frozen=True, slots=True)
class SeriesSnapshot:
    """One series."""

    labels: Labels
    source: str
    """The rule that recorded it; empty if it was collected."""
    starts: "array[int]"
    """The tick at which each run begins (type code I)."""
    values: "array[float]"
    """The value of each run, or the kind of gap (type code d)."""
    gaps: "array[int]"
    """The start ticks of the runs that are gaps (type code I)."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All ticks and series of a group."""

    base: int
    """Number of the first tick; runs may begin before it."""
    times: "array[int]"
    """The time of each tick in ms of the storage's clock (type code q)."""
    series: tuple[SeriesSnapshot, ...]

    def check(self) -> None:
        """Raise SnapshotError if no storage can have produced this."""
        if self.base + len(self.times) > _MOST:
            raise SnapshotError("more ticks than there can have been")
        if not _rises(self.times):
            raise SnapshotError("times that do not rise")
        for series in self.series:
            _check(series, self.base + len(self.times))
        if len({series.labels for series in self.series}) < len(self.series):
            raise SnapshotError("a series that is there twice")


def _check(series: SeriesSnapshot, end: int) -> None:
    names = [name for name, _ in series.labels]
    if NAME not in names or not all(name < after for name, after in pairwise(names)):
        raise SnapshotError("labels without the metric's name or out of order")
    if not all(value for _, value in series.labels):
        raise SnapshotError("a label without a value")
    if len(series.values) != len(series.starts) or not series.starts:
        raise SnapshotError("not as many values as runs, or none")
    if not _rises(series.starts) or series.starts[-1] >= end:
        raise SnapshotError("runs that do not rise, or begin after the last tick")
    if not _rises(series.gaps) or not set(series.gaps) <= set(series.starts):
        raise SnapshotError("gaps where no run begins")


def _rises(numbers: "array[int]") -> bool:
    return all(number < after for number, after in pairwise(numbers))

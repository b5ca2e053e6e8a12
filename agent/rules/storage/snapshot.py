"""Snapshots: the samples of a group's storage as plain numbers, for another storage, or as bytes for the state file.

The bytes are little-endian and length-prefixed:

groups u32, each: name text, ticks u32, times i64 each, series u32, each:
    labels u32, each: name text, value text
    source text
    runs u32, starts u32 each, values f64 each
    gaps u32, starts u32 each
text: bytes u32, UTF-8
"""

import struct
import sys
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from agent.rules.promql.labels import NAME, Labels
from plimsoll.text import SentenceError

_MOST = 1 << 31  # ticks: 68 years of seconds, half of what four bytes hold
_N = TypeVar("_N", int, float)
_COUNT = struct.Struct("<I")
_SWAPPED = sys.byteorder == "big"


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


def encode(snapshots: Mapping[str, Snapshot]) -> Iterator[bytes]:
    """Yield the encoded snapshots of groups, by name, in pieces."""
    yield _COUNT.pack(len(snapshots))
    for name, snapshot in snapshots.items():
        yield _text(name) + _COUNT.pack(snapshot.base)
        yield _numbers(snapshot.times) + _COUNT.pack(len(snapshot.series))
        for series in snapshot.series:
            yield _COUNT.pack(len(series.labels))
            yield from (_text(part) for pair in series.labels for part in pair)
            yield _text(series.source)
            yield _numbers(series.starts)
            yield _bare(series.values)
            yield _numbers(series.gaps)


def _text(text: str) -> bytes:
    encoded = text.encode(
        "utf-8", "surrogatepass"
    )  # device names from the kernel may be arbitrary bytes
    return _COUNT.pack(len(encoded)) + encoded


def _numbers(numbers: "array[int]") -> bytes:
    return _COUNT.pack(len(numbers)) + _bare(numbers)


def _bare(numbers: "array[int] | array[float]") -> bytes:
    if _SWAPPED:
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def decode(content: bytes) -> dict[str, Snapshot]:
    """Decode snapshots by group. Raises SnapshotError for bytes that `encode` cannot have produced.

    Allocates at most about twenty times the size of the content, whatever it declares.
    """
    reader = _Reader(content)
    found: dict[str, Snapshot] = {}
    for _ in range(reader.count()):
        name = reader.text()
        if name in found:
            raise SnapshotError("a group that is there twice")
        base, times = reader.count(), reader.integers("q", reader.count())
        every = tuple([reader.series() for _ in range(reader.count())])
        found[name] = Snapshot(base, times, every)
        found[name].check()
    reader.end()
    return found


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = memoryview(content)
        self._place = 0

    def series(self) -> SeriesSnapshot:
        labels = tuple([(self.text(), self.text()) for _ in range(self.count())])
        source = self.text()
        runs = self.count()
        starts = self.integers("I", runs)
        values = self._array(array("d"), runs)
        return SeriesSnapshot(labels, source, starts, values, self.integers("I", self.count()))

    def count(self) -> int:
        (count,) = _COUNT.unpack(self._take(_COUNT.size))
        return int(count)

    def text(self) -> str:
        try:
            return str(self._take(self.count()), "utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise SnapshotError("a text that is not UTF-8") from error

    def integers(self, code: str, count: int) -> "array[int]":
        return self._array(array(code), count)

    def _array(self, numbers: "array[_N]", count: int) -> "array[_N]":
        numbers.frombytes(self._take(count * numbers.itemsize))
        if _SWAPPED:
            numbers.byteswap()
        return numbers

    def _take(self, size: int) -> memoryview:
        begin, self._place = self._place, self._place + size
        if self._place > len(self._content):
            raise SnapshotError("it ends too early")
        return self._content[begin : self._place]

    def end(self) -> None:
        if self._place != len(self._content):
            raise SnapshotError("it goes on behind its end")

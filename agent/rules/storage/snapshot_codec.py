"""Encodes snapshots as bytes and decodes them with full validation: little-endian, length-prefixed.

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
from typing import TypeVar

from agent.rules.storage.snapshot import SeriesSnapshot, Snapshot, SnapshotError

_N = TypeVar("_N", int, float)

_COUNT = struct.Struct("<I")
_SWAPPED = sys.byteorder == "big"


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

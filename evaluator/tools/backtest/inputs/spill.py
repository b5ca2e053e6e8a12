"""Samples of many series by hour, in memory or, if they are many, in a temporary file."""

import itertools
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from evaluator.core.readings.column import Floats

HOUR = 3600.0
_IN_MEMORY = 64 << 20
"""Bytes from which on samples are in a file."""

Piece = tuple[int, int, int]
"""The number of a series, the offset of its times and then its values, and how many there are."""


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

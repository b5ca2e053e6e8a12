"""Appends records to a file as JSON lines, for those who want more than fits into memory; rotated by size."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from evaluator.features.history.history import Entry, History, Query
from evaluator.features.history.page import written
from plimsoll import logs
from plimsoll.http.pieces import unhurried

log = logs.get(__name__)

_PAUSE = 1.0
"""Seconds between two writes."""
_MOST = 2_000
"""Records of one write; a storm with more leaves the oldest out, and says so in the file."""


class HistoryFile:
    """A file of at most `size` bytes, and `kept` earlier ones with the suffixes .1, .2 and so on, the newest first."""

    def __init__(self, history: History, path: str, *, size: int, kept: int) -> None:
        self._history = history
        self._path = Path(path)
        self._size = size
        self._kept = kept
        self._last = 0
        self._failing = ""

    async def run(self) -> None:
        """Append new records until cancelled. A write that fails is logged once per reason; its records are left out."""
        while True:
            await self.write()
            await asyncio.sleep(_PAUSE)

    async def write(self) -> None:
        """Append the records that were added since the last call."""
        after, newest = self._last, self._history.newest
        if newest == after:
            return
        found = await unhurried(_some(self._history, after))
        entries = [entry for entry in found if entry is not None and entry.number <= newest]
        self._last = newest
        lines = await unhurried(_lines(entries[::-1], newest - after - len(entries)))
        try:
            await asyncio.to_thread(self._append, b"".join(lines))
        except OSError as error:
            if (reason := error.strerror or str(error)) != self._failing:
                log.warning("history not written", file=str(self._path), error=reason)
            self._failing = reason
        else:
            self._failing = ""

    def _append(self, text: bytes) -> None:
        """Append to the file; rotate first if it would become too large. Raises OSError."""
        present = self._path.stat().st_size if self._path.exists() else 0
        if present and present + len(text) > self._size:
            self._rotate()
        with self._path.open("ab") as file:
            file.write(text)

    def _rotate(self) -> None:
        names = [self._path, *(Path(f"{self._path}.{n}") for n in range(1, self._kept + 1))]
        names[-1].unlink(missing_ok=True)
        for name, older in zip(names[-2::-1], names[:0:-1], strict=True):
            if name.exists():
                name.rename(older)


def _some(history: History, after: int) -> Iterator[Entry | None]:
    """Yield the newest records after a number, and None between steps."""
    left = _MOST
    for entry in history.newest_first(Query(after=after)):
        yield entry
        left -= entry is not None
        if not left:
            return


def _lines(entries: Sequence[Entry], left_out: int) -> Iterator[bytes]:
    if left_out:
        yield msgspec.json.encode({"kind": "left out", "records": left_out}) + b"\n"
    for entry in entries:
        yield msgspec.json.encode(written(entry.fields)) + b"\n"

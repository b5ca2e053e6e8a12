"""What reads new records: a file, for those who want more than fits into memory, and pages that wait for a change."""

import asyncio
import contextlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.pages.part import Scope
from evaluator.features.history.history import Entry, History, Query
from evaluator.features.history.records import written
from plimsoll import logs
from plimsoll.http.pieces import stepwise, unhurried

log = logs.get(__name__)

_PAUSE = 1.0
"""Seconds between two writes."""
_MOST = 2_000
"""Records of one write; a storm with more leaves the oldest out, and says so in the file."""
MOST = 12
"""Pages that wait at a time, well below the connections of the operations port: probes and Prometheus need some."""
_PATIENCE = 25.0
"""Seconds that a page waits; then it asks again, and is authorized again. Proxies end idle requests after 30 s and more."""
_LOOK = 0.5
"""Seconds between two looks: with a notification for each record, a storm would wake every page all the time."""
_POSITION = re.compile(r"([0-9a-f]{12})-(\d{1,18})", re.ASCII)


class HistoryFile:
    """A file of at most `size` bytes, and `kept` earlier ones with the suffixes .1, .2 and so on, the newest first."""

    def __init__(
        self, history: History, path: str, *, size: int, kept: int, guard: Guard = UNGUARDED
    ) -> None:
        """`guard` takes what one record raises."""
        self._guard = guard
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
        lines = await unhurried(_lines(entries[::-1], newest - after - len(entries), self._guard))
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


def _lines(entries: Sequence[Entry], left_out: int, guard: Guard) -> Iterator[bytes]:
    if left_out:
        yield msgspec.json.encode({"kind": "left out", "records": left_out}) + b"\n"
    for entry in entries:
        yield guard.run(f"record {entry.number}", partial(_line, entry), b"")


def _line(entry: Entry) -> bytes:
    return msgspec.json.encode(written(entry.fields)) + b"\n"


class Live:
    """Waits for records. `stopping` returns why this replica stops, if it does: pages then no longer wait."""

    def __init__(
        self,
        history: History,
        stopping: Callable[[], object],
        *,
        patience: float = _PATIENCE,
        pause: float = _LOOK,
    ) -> None:
        self._history = history
        self._stopping = stopping
        self._patience = patience
        self._pause = pause
        self._waiting: OrderedDict[object, asyncio.Event] = OrderedDict()

    @property
    def position(self) -> str:
        """The newest record of this process."""
        return self.position_of(Scope())

    def position_of(self, scope: Scope) -> str:
        """Return the newest record of a scope's namespace, or of all: records of others change no position of a namespace."""
        return f"{self._history.recorder}-{self._history.newest_of(scope.namespace)}"

    async def changed(self, scope: Scope, after: str) -> tuple[str, bool]:
        """Wait for a record of a scope; see `PagePast`. A position of another replica counts as passed.

        One page more than `MOST` ends the wait of the oldest: nothing shows which pages were closed meanwhile.
        """
        while len(self._waiting) >= MOST:
            self._waiting.popitem(last=False)[1].set()
        me, end = object(), asyncio.Event()
        self._waiting[me] = end
        try:
            return await self._wait(scope, after, end)
        finally:
            self._waiting.pop(me, None)

    async def _wait(self, scope: Scope, after: str, end: asyncio.Event) -> tuple[str, bool]:
        seen = await self._number(scope, after)
        if seen is None:
            return self.position_of(scope), True
        position = self.position_of(scope)
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience
        while loop.time() < until and not end.is_set() and not self._stopping():
            newest, known = self._history.newest, self.position_of(scope)
            if newest > seen and await self._is_new(scope, seen):
                return self.position_of(scope), True
            seen, position = newest, known
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(end.wait(), self._pause)
        return position, False

    async def _number(self, scope: Scope, position: str) -> int | None:
        """Return the number among all records of a position; the newest for none, None for that of another process."""
        if not position:
            return self._history.newest
        match = _POSITION.fullmatch(position)
        if match is None or match[1] != self._history.recorder:
            return None
        own = int(match[2])
        if not scope.namespace:
            return own
        if own >= self._history.newest_of(scope.namespace):
            return self._history.newest
        return (await stepwise(self._history.own_numbers(scope.namespace))).among_all(own)

    async def _is_new(self, scope: Scope, seen: int) -> bool:
        """Return whether there is a record of the scope after a number."""
        query = Query(after=seen, **scope._asdict())
        return any(await unhurried(self._history.matching(query)))

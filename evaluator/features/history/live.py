"""Tells pages when something changed: they wait for it, a bounded number at a time."""

import asyncio
import contextlib
import re
from collections import OrderedDict
from collections.abc import Callable

from evaluator.core.pages import Scope
from evaluator.features.history.history import History, Query
from plimsoll.http.pieces import unhurried

MOST = 12
"""Pages that wait at a time, well below the connections of the operations port: probes and Prometheus need some."""
_PATIENCE = 25.0
"""Seconds that a page waits; then it asks again, and is authorized again. Proxies end idle requests after 30 s and more."""
_PAUSE = 0.5
"""Seconds between two looks: with a notification for each record, a storm would wake every page all the time."""
_POSITION = re.compile(r"([0-9a-f]{12})-(\d{1,18})", re.ASCII)


class Live:
    """Waits for records. `stopping` returns why this replica stops, if it does: pages then no longer wait."""

    def __init__(
        self,
        history: History,
        stopping: Callable[[], object],
        *,
        patience: float = _PATIENCE,
        pause: float = _PAUSE,
    ) -> None:
        self._history = history
        self._stopping = stopping
        self._patience = patience
        self._pause = pause
        self._waiting: OrderedDict[object, asyncio.Event] = OrderedDict()

    @property
    def position(self) -> str:
        """The newest record of this process."""
        return f"{self._history.recorder}-{self._history.newest}"

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
        seen = self._number(after)
        if seen is None:
            return self.position, True
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience
        while loop.time() < until and not end.is_set() and not self._stopping():
            newest = self._history.newest
            if newest > seen and await self._is_new(scope, seen):
                return self.position, True
            seen = newest
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(end.wait(), self._pause)
        return f"{self._history.recorder}-{seen}", False

    def _number(self, position: str) -> int | None:
        """Return the number in a position; the newest for none, None for that of another process."""
        if not position:
            return self._history.newest
        match = _POSITION.fullmatch(position)
        return int(match[2]) if match and match[1] == self._history.recorder else None

    async def _is_new(self, scope: Scope, seen: int) -> bool:
        """Return whether there is a record of the scope after a number."""
        query = Query(after=seen, **scope._asdict())
        return any(await unhurried(self._history.matching(query)))

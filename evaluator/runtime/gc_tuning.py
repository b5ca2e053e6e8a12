"""Python's search for garbage in cycles: often among what is young, seldom among all there is. Nobody is answered meanwhile.

A full collection walks every object that can be in a cycle. With 5,000 agents connected these are half a million, many of
them coroutines, and it takes 350 ms; by Python's defaults there is one every few seconds while readings change, since what
is decided anew counts as growth. What is in cycles for long is little: of each stream that ended, five small objects. Ended
connections of HTTP ports are in no cycle (tests/plimsoll/http/test_release.py): with TLS each holds 270 KiB.
"""

import asyncio
import ctypes
import gc
from collections.abc import Callable

_YOUNG = 5_000
"""New objects that start a young collection, which takes half a millisecond."""
_MIDDLE = 1
"""Young collections before a middle one, which so visits at most twice as many objects."""
_FULL = 100_000
"""Middle collections before a full one: hours; ended streams leave some megabytes until then."""


def raise_thresholds() -> None:
    """Freeze imported modules and make full collections rare. Call it after all imports."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _FULL)


class FreezeWhenReady:
    """Freezes all objects once the program is ready and has the cluster in memory.

    Frozen objects are still freed by reference counting; none is in a cycle. No collection runs before: it takes 350 ms, in
    which agents wait. The cyclic garbage of the start is a few thousand objects, and stays.
    """

    def __init__(self, ready: Callable[[], bool], settle: Callable[[], None] | None = None) -> None:
        self._ready = ready
        self._settle = settle or gc.freeze
        self._done = False

    def look(self) -> None:
        """Check for readiness, after each decision."""
        if not self._done and self._ready():
            self._done = True
            self._settle()


_PERIOD = 30.0
"""Seconds between two checks of the number of ended streams."""
_ENOUGH = 50
"""Ended streams that start a trim; memory of a few is reused."""


class Trimmer:
    """Returns freed memory to the kernel after many streams have ended.

    glibc returns only the end of a heap by itself, and memory of streams lies between longer-lived objects. After 2,600
    streams, 146 MB of 168 were free and not returned.
    """

    def __init__(
        self, trim: Callable[[], object] | None = None, *, period: float = _PERIOD
    ) -> None:
        self._trim = trim or _malloc_trim()
        self._period = period
        self._ended = 0

    def stream_ended(self) -> None:
        """Count an ended stream."""
        self._ended += 1

    async def run(self) -> None:
        """Trim until cancelled, in a thread: it takes milliseconds and blocks only allocations from the same heap."""
        while True:
            await asyncio.sleep(self._period)
            if self._ended >= _ENOUGH:
                self._ended = 0
                await asyncio.to_thread(self._trim)


def _malloc_trim() -> Callable[[], object]:
    """glibc's malloc_trim(0); a no-op with other C libraries."""
    found = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return (lambda: None) if found is None else (lambda: found(ctypes.c_size_t(0)))

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
"""New objects that set off a collection of just these, which takes half a millisecond."""
_MIDDLE = 1
"""Such collections before one of what they left, too: so it looks at no more than twice as many objects."""
_FULL = 100_000
"""Of those before a full one: hours, so that what ended streams leave is some megabytes at most."""


def raise_thresholds() -> None:
    """Call it once all modules are imported: they are never garbage. From then on full collections are rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _FULL)


class FreezeWhenReady:
    """Takes what is known out of the search, once: when the program is ready, and so has its cluster in memory.

    Objects that are dropped later are freed all the same, as they are in no cycle. There is no collection before: it takes
    350 ms, in which agents wait. The cyclic garbage of the start is a few thousand objects, and stays.
    """

    def __init__(self, ready: Callable[[], bool], settle: Callable[[], None] | None = None) -> None:
        self._ready = ready
        self._settle = settle or gc.freeze
        self._done = False

    def look(self) -> None:
        """Something was decided."""
        if not self._done and self._ready():
            self._done = True
            self._settle()


_PERIOD = 30.0
"""Seconds between two looks at how many streams have ended."""
_ENOUGH = 50
"""Ended streams that make it worth while: what a few leave is used again."""


class Trimmer:
    """Returns freed memory to the kernel after many streams have ended.

    glibc keeps it: what TLS and gRPC take for a stream lies between things that live longer, and only the end of a heap is
    returned by itself. After 2,600 streams 146 MB of 168 were free and stayed.
    """

    def __init__(
        self, trim: Callable[[], object] | None = None, *, period: float = _PERIOD
    ) -> None:
        self._trim = trim or _malloc_trim()
        self._period = period
        self._ended = 0

    def stream_ended(self) -> None:
        """Count one."""
        self._ended += 1

    async def run(self) -> None:
        """Trim for ever, in a thread: it takes milliseconds in which only allocations from the same heap wait."""
        while True:
            await asyncio.sleep(self._period)
            if self._ended >= _ENOUGH:
                self._ended = 0
                await asyncio.to_thread(self._trim)


def _malloc_trim() -> Callable[[], object]:
    """glibc's malloc_trim(0); nothing where the C library has none."""
    found = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return (lambda: None) if found is None else (lambda: found(ctypes.c_size_t(0)))

"""Thresholds of Python's garbage collector, and collections after ended requests.

A full collection visits every object that can be in a cycle. With 5,000 agents these are half a million, which takes 350 ms
without serving anything, and Python's defaults start one every few seconds while readings change. So programs collect young
objects often, and all objects almost never.

Python's own trigger counts surviving objects, which live readings and decisions raise too. What clients can leave behind is
counted here instead: garbage is collected after 10,000 ended requests, connections and streams, or 1,000 while memory grows.
Each ended connection leaves some: a transport of asyncio refers to itself (1.5 KB), as does the method look-up of a gRPC
stream. An exception kept in a local of the frame that raised it leaves that frame with all that it refers to;
`checks/exceptions.py` finds these.
"""

import contextlib
import gc
import time
from collections.abc import Callable, Iterator

from plimsoll.process import memory

_YOUNG = 700
"""New objects that start a young collection.

Freed old objects are subtracted, so several times as many are visited: 5,000, in 2 ms, while decisions are replaced.
"""
_MIDDLE = 1
"""Young collections before a middle one, which so visits at most twice as many objects."""
_FULL = 100_000
"""Middle collections before a full one: hours."""


_EVERY = 1_000
"""Ended requests between two looks at memory."""
_LOOKS = 10
"""Looks after which garbage is collected although memory did not grow by _GROWN; at each, kube-scheduler's CPU rose by 7 %."""
_GROWN = 1.1
_SLOW = 0.01
"""Seconds of a collection after which its survivors are not visited again, as those of thousands of new streams."""
_GROWTH = 1.25
"""Growth of resident memory after which all objects are visited: in survivors that were frozen there may be garbage by now."""


class GarbageCollection:
    """Counts what ended and collects its garbage.

    `resident` returns the process' resident memory in any unit, `clock` seconds.
    """

    def __init__(
        self,
        *,
        resident: Callable[[], int] = memory.resident,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._resident = resident
        self._clock = clock
        self._left = _EVERY
        self._looks = 0
        self._after = 0.0
        self._most = 0.0

    def ended(self) -> None:
        """Count an ended request, connection or stream; collect garbage if it is time."""
        self._left -= 1
        if not self._left:
            self._left = _EVERY
            self._looks += 1
            if self._looks == _LOOKS or self._resident() > self._after * _GROWN:
                self._looks = 0
                self._collect()
                self._after = self._resident()

    def _collect(self) -> None:
        begun = self._clock()
        gc.collect()
        if self._clock() - begun > _SLOW:
            gc.freeze()
        resident = self._resident()
        if not self._most:
            self._most = resident * _GROWTH
        elif resident > self._most:
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._most = self._resident() * _GROWTH


OF_THIS_PROCESS = GarbageCollection()
"""Garbage is the whole process', whichever port it comes from."""


def raise_thresholds() -> None:
    """Freeze imported modules and make full collections rare. Call it after all imports."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _FULL)


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Make collections rare within the block, for a command that makes millions of objects without cycles."""
    before = gc.get_threshold()
    gc.set_threshold(_YOUNG, _MIDDLE, _FULL)
    try:
        yield
    finally:
        gc.set_threshold(*before)


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

"""Thresholds of Python's garbage collector: collect young objects often, all objects almost never.

A full collection visits every object that can be in a cycle. With 5,000 agents these are half a million, which takes 350 ms
without serving anything, and Python's defaults start one every few seconds while readings change. What ended requests and
streams leave in cycles is collected by their number: `plimsoll.process.garbage`.
"""

import contextlib
import gc
from collections.abc import Callable, Iterator

_YOUNG = 700
"""New objects that start a young collection.

Freed old objects are subtracted, so several times as many are visited: 5,000, in 2 ms, while decisions are replaced.
"""
_MIDDLE = 1
"""Young collections before a middle one, which so visits at most twice as many objects."""
_FULL = 100_000
"""Middle collections before a full one: hours."""


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

"""Python's search for garbage in cycles: often among what is young, seldom among all there is. Nobody is answered meanwhile.

A full collection walks every object that can be in a cycle. With 5,000 agents connected these are half a million, many of
them coroutines, and it takes 350 ms; by Python's defaults there is one every few seconds while readings change, since what
is decided anew counts as growth. What is in cycles for long is little: of each stream that ended, five small objects. Ended
connections of HTTP ports are in no cycle (tests/plimsoll/http/test_release.py): with TLS each holds 270 KiB.
"""

import gc
from collections.abc import Callable

_YOUNG = 50_000
"""New objects that set off a collection of just these: more than an answer, or a slice of a decision, makes and drops."""
_MIDDLE = 10
"""Such collections before one of what they left, too; Python's default."""
_FULL = 1_000
"""Of those before a full one: hours, so that what ended streams leave is some megabytes at most."""


def collect_seldom() -> None:
    """Once all modules are imported: they will never be garbage, and what comes is seldom looked at as a whole."""
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _FULL)


class Settled:
    """Takes what is known out of the search, once: when the program is ready, and so has its cluster in memory.

    What of it goes later is freed all the same, as nothing of it refers to itself.
    """

    def __init__(self, ready: Callable[[], bool], settle: Callable[[], None] | None = None) -> None:
        self._ready = ready
        self._settle = settle or _collect_and_freeze
        self._done = False

    def look(self) -> None:
        """Something was decided."""
        if not self._done and self._ready():
            self._done = True
            self._settle()


def _collect_and_freeze() -> None:
    gc.collect()  # what is garbage now would stay for ever
    gc.freeze()

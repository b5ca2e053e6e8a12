"""The garbage collector kept from looking again and again at what stays, while kube-scheduler waits for an answer.

A full collection walks every object there is: tens of milliseconds with thousands of nodes.
"""

import gc
from collections.abc import Callable


class Settled:
    """Takes what is known out of the collector's sight, once: when the program is ready, and so has its cluster in memory.

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

"""Collects cyclic garbage after 10,000 ended requests, connections and streams, or 1,000 while memory grows.

Python's own trigger counts surviving objects, which live readings and decisions raise too: programs that cannot wait for a
full collection make it rare. What clients can leave behind is counted here instead.

Each ended connection leaves some: a transport of asyncio refers to itself (1.5 KB), as does the method look-up of a gRPC
stream. An exception kept in a local of the frame that raised it leaves that frame with all that it refers to;
`checks/exceptions.py` finds these.
"""

import gc
import time
from collections.abc import Callable

from plimsoll.process import memory

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

"""Rests as long as work took, so that a log that grows without end takes at most half of a core."""

import contextlib
import time
from collections.abc import Callable, Iterator

_AT_ONCE = 0.05
"""Seconds of work without a rest."""


class Rest:
    """Counts the CPU time of one thread's work."""

    def __init__(
        self, sleep: Callable[[float], object], *, worked: Callable[[], float] = time.thread_time
    ) -> None:
        """`worked`: returns the seconds that this thread has worked."""
        self._sleep = sleep
        self._worked = worked
        self._due = 0.0

    @contextlib.contextmanager
    def after_work(self) -> Iterator[None]:
        """Rest after some work, if it and the work before it took long."""
        begin = self._worked()
        try:
            yield
        finally:
            self._due += self._worked() - begin
        if self._due >= _AT_ONCE:
            due, self._due = self._due, 0.0
            self._sleep(due)

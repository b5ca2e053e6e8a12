"""The clock of samples, and what Unix time is beside it."""

import time
from collections.abc import Callable
from dataclasses import dataclass


def _boot() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def _wall() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Clock:
    """Milliseconds since the machine was started, which never go back, and in Unix time."""

    boot: Callable[[], int] = _boot
    wall: Callable[[], int] = _wall
    processor: Callable[[], float] = time.thread_time
    """Seconds of processor time that this thread has taken."""

    def epoch(self) -> int:
        """Milliseconds to add to a time since boot to have Unix time."""
        return self.wall() - self.boot()

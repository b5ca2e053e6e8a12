"""The clock of samples and its offset to Unix time."""

import time
from collections.abc import Callable
from dataclasses import dataclass


def _boot() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def _wall() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Clock:
    """Monotonic milliseconds since boot, and Unix time."""

    boot: Callable[[], int] = _boot
    wall: Callable[[], int] = _wall
    processor: Callable[[], float] = time.thread_time
    """Returns the CPU seconds used by this thread."""

    def epoch(self) -> int:
        """Return the milliseconds to add to a time since boot to get Unix time."""
        return self.wall() - self.boot()

"""Counters of the kernel's perf subsystem (perf_event_open(2)), one per event and CPU."""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable
from typing import NamedTuple

from collectors.interface.sample import CollectorError

HARDWARE, SOFTWARE, TRACEPOINT, CACHE = 0, 1, 2, 3
_SYSCALLS = {
    "x86_64": 298, "aarch64": 241, "riscv64": 241, "loongarch64": 241, "ppc64le": 319, "s390x": 331, "armv7l": 364, "i686": 336,
}  # fmt: skip
# The first version of struct perf_event_attr: type, size, config, period, sample type, format of reads, flags, ...
_ATTRIBUTES = struct.Struct("=IIQQQQQQQ")
_TIMES = 3  # reads also yield the time enabled and the time running
_CLOSE_ON_EXEC = 8
_READING = struct.Struct("=QQQ")
_UNSUPPORTED = frozenset({errno.ENOENT, errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV, errno.ENXIO})

Open = Callable[["Event", int], int]
"""Opens an event on a CPU and returns a descriptor. Raises OSError."""


class Event(NamedTuple):
    """A kind of event."""

    type: int
    config: int


def open_event(event: Event, cpu: int) -> int:
    """Open an event of all processes on a CPU."""
    if (number := _SYSCALLS.get(platform.machine())) is None:
        raise OSError(errno.ENOSYS, f"no perf_event_open for {platform.machine()}")
    attributes = _ATTRIBUTES.pack(event.type, _ATTRIBUTES.size, event.config, 0, 0, _TIMES, 0, 0, 0)
    library = ctypes.CDLL(None, use_errno=True)
    descriptor: int = library.syscall(number, attributes, -1, cpu, -1, _CLOSE_ON_EXEC)
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return descriptor


class EventCounter:
    """An open event. If there are more events than hardware counters, each runs part of the time, and its increases are scaled."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._last = (0, 0, 0)
        self._total = 0.0

    def read(self) -> float:
        """Return the number of events since the event was opened."""
        content = os.read(self._descriptor, _READING.size)
        if len(content) == _READING.size:  # empty while the CPU is offline
            reading = _READING.unpack(content)
            count, enabled, running = (
                now - before for now, before in zip(reading, self._last, strict=True)
            )
            if running > 0:
                self._total += count * (enabled / running)
                self._last = reading
        return self._total

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self._descriptor)


def counter(event: Event, cpu: int, opened: Open = open_event) -> EventCounter | None:
    """Open an event; None if this machine does not have it. Raises CollectorError if it may not be opened."""
    try:
        return EventCounter(opened(event, cpu))
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return None
        hint = ""
        if error.errno in {errno.EACCES, errno.EPERM}:
            hint = "; needs CAP_PERFMON or kernel.perf_event_paranoid=0"
        raise CollectorError(f"perf_event_open: {error.strerror}{hint}") from error

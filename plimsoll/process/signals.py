"""Waits for signals in programs without an event loop."""

import select
import signal
import socket
from collections.abc import Sequence
from types import FrameType

_STOPPING = signal.SIGTERM, signal.SIGINT


class StopSignals:
    """Waits for the signals that end a program, which handles no others; created in its main thread."""

    def __init__(self, numbers: Sequence[signal.Signals] = _STOPPING) -> None:
        # Python runs handlers between two instructions, so a signal that arrives just before the system call of a lock's
        # wait() does not end it, and an Event's set() waits for the wait() that it interrupted. A file is readable at once.
        self._arrived, self._told = socket.socketpair()
        self._told.setblocking(False)
        signal.set_wakeup_fd(self._told.fileno(), warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, _end_no_program)

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether one arrived within `timeout` seconds, by default without end; True again if asked again."""
        readable, _, _ = select.select([self._arrived], [], [], timeout)
        return bool(readable)


def _end_no_program(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: without a handler, the signal would end the program at once."""

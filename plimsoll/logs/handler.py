"""Log lines are written to stderr completely or dropped: a full disk or closed pipe loses lines, nothing else.

The standard handler prints a traceback for a failed write, to the same stream: on a nearly full disk that fills the rest,
and a lost line costs many times a written one.
"""

import logging
import math
import time
from collections.abc import Callable
from typing import TextIO

_PAUSE = 1.0
"""Seconds after a failed write during which lines are dropped without trying."""


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes each line unbuffered, so that a part of a failed line is not written before the next one.

    Dropped lines are counted, and the count is logged once writing works again.
    """

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        self._failed = -math.inf
        self._lost = 0
        self._torn = False

    def emit(self, record: logging.LogRecord) -> None:
        """Format and write a record."""
        if self._clock() - self._failed < _PAUSE:
            self._lost += 1
            return
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001 (the handler's own way to say so)
            self.handleError(record)
            return
        if not self._written(text):
            self._failed = self._clock()
            self._lost += 1
        elif self._lost:
            lost, self._lost = self._lost, 0
            logging.getLogger(__name__).warning("%s log lines could not be written", lost)

    def _written(self, text: str) -> bool:
        """Write a line. Returns whether it was written completely."""
        line = f"{text}\n".encode(errors="backslashreplace")
        # End a partial line first, or two lines would be read as one.
        left = memoryview(b"\n" + line if self._torn else line)
        binary = self.stream.buffer
        raw = getattr(binary, "raw", binary)
        try:
            while left:
                count = raw.write(left)
                if not count:  # a pipe that is full: do not block
                    return False
                self._torn = left[count - 1] != ord("\n")
                left = left[count:]
        except (OSError, ValueError):  # ValueError: the stream was closed
            return False
        return True

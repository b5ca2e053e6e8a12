"""Log lines that reach stderr whole, or not at all: a full disk or a reader that is gone takes lines, and nothing else.

The standard handler answers a failed write with a traceback, to the same place: where the disk is nearly full it fills
the rest of it, and a line that is lost costs many times as much as one that is written.
"""

import logging
import math
import time
from collections.abc import Callable
from typing import TextIO

_PAUSE = 1.0
"""Seconds after a failure in which no more is tried: a disk that is full is full for a while."""


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes each line by itself, past the stream's buffer: half of what failed must not come out before what comes next.

    What cannot be written is lost. How much that was is said in a line of its own, once there is somewhere to say it.
    """

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        self._failed = -math.inf
        self._lost = 0
        self._torn = False

    def emit(self, record: logging.LogRecord) -> None:
        """Format and write; a record that cannot be formatted is the only thing to complain about."""
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
        """Whether the whole line is there now."""
        line = f"{text}\n".encode(errors="backslashreplace")
        # What has failed in its midst is ended first, or two lines would be read as one.
        left = memoryview(b"\n" + line if self._torn else line)
        binary = self.stream.buffer
        raw = getattr(binary, "raw", binary)
        try:
            while left:
                count = raw.write(left)
                if not count:  # nobody reads, and we do not wait
                    return False
                self._torn = left[count - 1] != ord("\n")
                left = left[count:]
        except (OSError, ValueError):  # ValueError: the stream was closed
            return False
        return True

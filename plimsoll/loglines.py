"""Log lines that reach stderr whole, or not at all: a full disk or a reader that is gone takes lines, and nothing else.

The standard handler answers a failed write with a traceback, to the same place: where the disk is nearly full, it fills
the rest of it, and each line costs a hundred times as much as one that is written.
"""

import logging
import sys
from typing import TextIO

_LOST = 'level=warning msg="log lines were lost: they could not be written" lines={}\n'


class Lines(logging.StreamHandler[TextIO]):
    """Writes each line in one piece, past the stream's buffer: half of a line that failed must not come out later.

    What cannot be written is lost. How much that was is said in a line of its own, once there is somewhere to say it.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.lost = 0
        self._torn = False

    def emit(self, record: logging.LogRecord) -> None:
        """Format and write; a record that cannot be formatted is the only thing to complain about."""
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return

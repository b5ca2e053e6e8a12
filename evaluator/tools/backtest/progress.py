"""A progress bar on a terminal."""

import sys

from plimsoll import rfc3339

_WIDTH = 30


class Progress:
    """The part of a replay that is done; written to standard error."""

    def __init__(self, begin: float, end: float) -> None:
        self._begin = begin
        self._end = end
        self._shown = -1

    def show(self, now: float) -> None:
        """Show how far the replay is (Unix seconds); writes only when a percent is done."""
        percent = int(100 * (now - self._begin) / max(self._end - self._begin, 1e-9))
        if percent != self._shown:
            self._shown = percent
            bar = ("#" * (percent * _WIDTH // 100)).ljust(_WIDTH)
            sys.stderr.write(f"\r[{bar}] {percent:3d} % {rfc3339.seconds(now)}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Remove the bar."""
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()

"""A token bucket: so many at once, so many a second in the long run. Times are passed in; it only says how long to wait."""


class TokenBucket:
    """`rate` tokens a second, at most `burst` saved up. Times in seconds, of any one clock."""

    def __init__(self, rate: float, burst: int) -> None:
        self._interval = 1 / rate
        self._saved = (burst - 1) * self._interval
        self._full = 0.0
        """When nothing would be missing, if nothing were taken any more."""

    def take(self, now: float) -> float:
        """Take one; returns the seconds to wait before using it."""
        self._full = max(self._full, now)
        wait = max(0.0, self._full - self._saved - now)
        self._full += self._interval
        return wait

    def take_now(self, now: float) -> bool:
        """Take one if there is one; nothing is owed if not."""
        self._full = max(self._full, now)
        if self._full - self._saved > now:
            return False
        self._full += self._interval
        return True

    def due(self, now: float) -> float:
        """Seconds until there is one; none is taken."""
        return max(0.0, self._full - self._saved - now)

    def left(self, now: float) -> int:
        """How many could be taken now."""
        missing = max(0.0, self._full - now)
        return max(0, int((self._saved + self._interval - missing) / self._interval + 1e-9))

    def empty(self, until: float) -> None:
        """None before then, and nothing saved up: the server has asked for quiet, and not for a burst afterwards."""
        self._full = max(self._full, until + self._saved)

"""Token bucket: a burst at once, a constant rate on average. Times are passed in; it never waits itself."""


class TokenBucket:
    """`rate` tokens a second, at most `burst` saved. Times in seconds of any one clock."""

    def __init__(self, rate: float, burst: int) -> None:
        self._interval = 1 / rate
        self._saved = (burst - 1) * self._interval
        self._full = 0.0
        """The time at which the bucket is full again."""

    def take(self, now: float) -> float:
        """Take a token. Returns the seconds to wait before using it."""
        self._full = max(self._full, now)
        wait = max(0.0, self._full - self._saved - now)
        self._full += self._interval
        return wait

    def take_now(self, now: float) -> bool:
        """Take a token if one is available. Returns whether it was."""
        self._full = max(self._full, now)
        if self._full - self._saved > now:
            return False
        self._full += self._interval
        return True

    def due(self, now: float) -> float:
        """Return the seconds until a token is available, without taking it."""
        return max(0.0, self._full - self._saved - now)

    def left(self, now: float) -> int:
        """Return how many tokens are available."""
        missing = max(0.0, self._full - now)
        return max(0, int((self._saved + self._interval - missing) / self._interval + 1e-9))

    def empty(self, until: float) -> None:
        """Empty the bucket until a time, without saving tokens meanwhile, as after 429 with Retry-After."""
        self._full = max(self._full, until + self._saved)

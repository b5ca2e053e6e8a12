"""Exponential back-off with full jitter, so that thousands of clients do not retry at the same time.

https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
"""

from collections.abc import Callable


class Backoff:
    """Delays that grow from `first` towards `longest` seconds; `reset()` after a success.

    `random` returns a float in [0, 1): pass `random.Random().random`, or a constant in a test.
    """

    def __init__(
        self, random: Callable[[], float], *, first: float = 0.5, longest: float = 30.0
    ) -> None:
        self._random = random
        self._first = first
        self._longest = longest
        self._failures = 0

    def reset(self) -> None:
        """Reset to the shortest delay."""
        self._failures = 0

    def next(self) -> float:
        """Return the seconds to wait. At least a tenth of the current maximum, so that no loop spins."""
        bound = min(self._longest, self._first * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return bound * (0.1 + 0.9 * self._random())

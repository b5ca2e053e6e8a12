"""A log that a crowd cannot flood: so many lines at once, so many a second in the long run, and a count of the rest."""

import time
from collections.abc import Callable
from typing import Any

from plimsoll.ratelimit import TokenBucket


class RateLimitedLogger:
    """Warnings, which `warning` writes. What is left out is counted, and said with the next one that is written."""

    def __init__(
        self,
        warning: Callable[..., Any],
        *,
        rate: float = 2.0,
        burst: int = 50,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._warning = warning
        self._bucket = TokenBucket(rate, burst)
        self._clock = clock
        self._left_out = 0

    def warning(self, event: str, **fields: Any) -> None:
        """Write it, or count it."""
        if not self._bucket.take_now(self._clock()):
            self._left_out += 1
            return
        if self._left_out:
            fields["not_logged_before"] = self._left_out
            self._left_out = 0
        self._warning(event, **fields)

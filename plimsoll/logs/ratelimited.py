"""Rate-limited log: a client that causes errors cannot write log lines as fast as it sends requests."""

import time
from collections.abc import Callable
from typing import Any

from plimsoll.ratelimit import TokenBucket


class RateLimitedLogger:
    """Writes log lines at a bounded rate; the next line written has the number of lines dropped as `not_logged_before`."""

    def __init__(
        self,
        write: Callable[..., Any],
        *,
        overflow: Callable[..., Any] | None = None,
        rate: float = 2.0,
        burst: int = 50,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`write`: a method of a logger, such as `log.warning`. `overflow` gets the lines over the limit, e.g. `log.debug`.

        `rate`: lines per second on average. `burst`: lines at once.
        """
        self._write = write
        self._overflow = overflow
        self._bucket = TokenBucket(rate, burst)
        self._clock = clock
        self._dropped = 0

    def log(self, event: str, **fields: Any) -> None:
        """Write the line, or count it as dropped if there were too many."""
        if not self._bucket.take_now(self._clock()):
            self._dropped += 1
            if self._overflow is not None:
                self._overflow(event, **fields)
            return
        if self._dropped:
            fields["not_logged_before"] = self._dropped
            self._dropped = 0
        self._write(event, **fields)

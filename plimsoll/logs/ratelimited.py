"""Rate-limited log: a client that causes errors cannot write log lines as fast as it sends requests."""

import time
from collections.abc import Callable
from typing import Any

from structlog.stdlib import BoundLogger

from plimsoll.ratelimit import TokenBucket


class RateLimitedLogger:
    """Writes log lines at a bounded rate; the next line written has the number of lines dropped as `not_logged_before`."""

    def __init__(
        self,
        logger: BoundLogger,
        level: str = "warning",
        *,
        overflow: str | None = None,
        rate: float = 2.0,
        burst: int = 50,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`level`: the name of a method of `logger`, such as `warning`. `overflow`: that of lines over the limit, e.g. `debug`.

        `rate`: lines per second on average. `burst`: lines at once. Methods are looked up for each line, since logging may
        be configured later.
        """
        self._logger = logger
        self._level = level
        self._overflow = overflow
        self._bucket = TokenBucket(rate, burst)
        self._clock = clock
        self._dropped = 0

    def log(self, event: str, **fields: Any) -> None:
        """Write the line, or count it as dropped if there were too many."""
        if not self._bucket.take_now(self._clock()):
            self._dropped += 1
            if self._overflow is not None:
                getattr(self._logger, self._overflow)(event, **fields)
            return
        if self._dropped:
            fields["not_logged_before"] = self._dropped
            self._dropped = 0
        getattr(self._logger, self._level)(event, **fields)

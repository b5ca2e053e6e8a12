"""Limits on evaluations: CPU time, memory for results, and cancellation at shutdown.

Evaluation is cooperative: each part of an expression reports the bytes it takes, and long loops call `check`. All groups
share one budget, which is reset for each group and each rule.
"""

import math
from collections.abc import Callable

from plimsoll.durations import format_duration
from plimsoll.text import SentenceError

SERIES = 200
"""Estimated bytes of a series in a part's result. Parts hold 64 to 360 bytes a series, by tracemalloc."""
POINT = 90
"""Estimated bytes of a sample in a subquery's window. Windows hold 11 to 60 bytes a sample, by tracemalloc."""
_CALLS = 16  # calls of `check` per reading of the clock


class LimitError(SentenceError):
    """An evaluation exceeded a limit; `reason` is one of metrics.REASONS."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class CancelledError(Exception):
    """The agent is stopping; loading or evaluation in progress is abandoned."""


class Budget:
    """The limits of the current evaluation. For one thread at a time, except `cancel`."""

    def __init__(
        self,
        clock: Callable[[], float] = lambda: 0.0,
        *,
        rule_seconds: float = math.inf,
        group_seconds: float = math.inf,
    ) -> None:
        """`clock`: seconds, e.g. CPU time of this thread. Without arguments nothing is limited."""
        self.used = 0
        """Approximate bytes taken by the current rule's evaluation."""
        self._clock = clock
        self._rule_seconds = rule_seconds
        self._group_seconds = group_seconds
        self._group_end = self._end = math.inf
        self._bytes = math.inf
        self._calls = 0
        self._cancelled = False

    def start_group(self) -> None:
        """Start the time limit of a group."""
        self._group_end = self._end = self._clock() + self._group_seconds

    def start_rule(self, free: float) -> None:
        """Start the time limit of a rule, which may take `free` bytes. Raises LimitError if the group's time is used up."""
        self.check_cancelled()
        now = self._clock()
        self.used, self._bytes = 0, free
        self._end = min(self._group_end, now + self._rule_seconds)
        if now > self._end:
            raise LimitError("timeout", self._overrun())

    def take(self, size: int) -> None:
        """Count bytes, if possible before they are allocated, and call `check`. Raises LimitError if there are too many."""
        self.used += size
        if self.used > self._bytes:
            self.must_have(0)
        self._calls += 1  # as `check`, without a call: this runs for each part of each expression
        if self._calls % _CALLS == 0 or self._cancelled:
            self._check()

    def must_have(self, size: int) -> None:
        """Raise LimitError if so many bytes cannot be taken."""
        if self.used + size > self._bytes:
            raise LimitError(
                "memory", "its results would take more memory than --rules.max-memory leaves"
            )

    def check(self) -> None:
        """Raise LimitError if the time is used up, CancelledError if the agent is stopping."""
        self._calls += 1
        if self._calls % _CALLS == 0 or self._cancelled:
            self._check()

    def _check(self) -> None:
        self.check_cancelled()
        if self._clock() > self._end:
            raise LimitError("timeout", self._overrun())

    def check_cancelled(self) -> None:
        """Raise CancelledError if the agent is stopping."""
        if self._cancelled:
            raise CancelledError

    def cancel(self) -> None:
        """Cancel the current evaluation and every later one. Any thread may call it."""
        self._cancelled = True

    @property
    def group_is_over(self) -> bool:
        """Return whether the group has used up its time."""
        return self._clock() > self._group_end

    def _overrun(self) -> str:
        if self.group_is_over:
            seconds = format_duration(self._group_seconds)
            return f"the rules of its group took more than {seconds} of processor time together"
        return (
            f"its evaluation took more than {format_duration(self._rule_seconds)} of processor time"
        )

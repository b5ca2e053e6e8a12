"""What evaluations may take: time, memory for results, and nothing more once the agent stops.

Evaluation is cooperative: each part of an expression reports what it made, and long loops call `check`. All groups share
one budget, which is set anew for each group and each rule.
"""

import math
from collections.abc import Callable

from plimsoll.durations import format_duration
from plimsoll.text import SentenceError

SERIES = 200
"""Bytes counted for a series in the result of a part: an estimate. Parts hold 64 to 360 bytes a series, by tracemalloc."""
POINT = 90
"""Bytes counted for a sample in the window of a subquery: an estimate. Windows hold 11 to 60 bytes a sample, by tracemalloc."""
_CALLS = 16  # calls of `check` from one look at the clock to the next


class LimitError(SentenceError):
    """An evaluation that exceeds a limit; `reason` is one of accounts.REASONS."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class CancelledError(Exception):
    """The agent stops: whatever is being loaded or evaluated is given up."""


class Budget:
    """Limits of the evaluation under way. One thread at a time, except for `cancel`."""

    def __init__(
        self,
        clock: Callable[[], float] = lambda: 0.0,
        *,
        rule_seconds: float = math.inf,
        group_seconds: float = math.inf,
    ) -> None:
        """`clock`: seconds, such as the processor time of this thread. Without arguments there is no limit."""
        self.used = 0
        """Bytes that the rule's evaluation has taken, about."""
        self._clock = clock
        self._rule_seconds = rule_seconds
        self._group_seconds = group_seconds
        self._group_end = self._end = math.inf
        self._bytes = math.inf
        self._calls = 0
        self._cancelled = False

    def start_group(self) -> None:
        """A group is evaluated from now on."""
        self._group_end = self._end = self._clock() + self._group_seconds

    def start_rule(self, free: float) -> None:
        """A rule of the group is evaluated from now on, and may take so many bytes. LimitError if the group's time is over."""
        self.check_cancelled()
        now = self._clock()
        self.used, self._bytes = 0, free
        self._end = min(self._group_end, now + self._rule_seconds)
        if now > self._end:
            raise LimitError("timeout", self._overrun())

    def take(self, size: int) -> None:
        """Count bytes, before they are used where that is possible; then as `check`. LimitError if they are too many."""
        self.used += size
        if self.used > self._bytes:
            raise LimitError(
                "memory", "its results would take more memory than --rules.max-memory leaves"
            )
        self.check()

    def check(self) -> None:
        """LimitError if the time is over, CancelledError if the agent stops."""
        self.check_cancelled()
        self._calls += 1
        if self._calls % _CALLS == 0 and self._clock() > self._end:
            raise LimitError("timeout", self._overrun())

    def check_cancelled(self) -> None:
        """CancelledError if the agent stops."""
        if self._cancelled:
            raise CancelledError

    def cancel(self) -> None:
        """End what is under way, and all that is started afterwards. Any thread may call it."""
        self._cancelled = True

    @property
    def group_is_over(self) -> bool:
        """Whether the group has used up its time."""
        return self._clock() > self._group_end

    def _overrun(self) -> str:
        if self.group_is_over:
            seconds = format_duration(self._group_seconds)
            return f"the rules of its group took more than {seconds} of processor time together"
        return (
            f"its evaluation took more than {format_duration(self._rule_seconds)} of processor time"
        )

"""Failing rules for the reports of one stream: all with a full report, later only when they have changed."""

from collections.abc import Callable, Collection, Mapping

from plimsoll.ratelimit import TokenBucket
from wire.failing_rules import FailingRule

_PAUSE, _BURST = 30.0, 3
"""Average seconds between two changes sent, so that a rule that fails every other time costs little; and a burst of changes."""


class ChangedFailingRules:
    """What of the failing rules was sent."""

    def __init__(self, read: Callable[[], Mapping[FailingRule, float]]) -> None:
        self._read = read
        self._sent: Collection[FailingRule] = frozenset()
        self._changes = TokenBucket(1 / _PAUSE, _BURST)

    def take(self, now: float, *, full: bool) -> Mapping[FailingRule, float] | None:
        """Return what to send with a report at `now` (seconds), or None.

        A full report without failing rules says that there are none.
        """
        failing = self._read()
        if not full and (failing.keys() == self._sent or not self._changes.take_now(now)):
            return None
        self._sent = failing.keys()
        return failing if failing or not full else None

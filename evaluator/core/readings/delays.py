"""Freshness of readings whose reports were delayed: our process was suspended, or our port for agents restarted."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from evaluator.core.model.arrays import Bools, Floats
from evaluator.core.readings.column import NEVER, is_fresh


@dataclass(frozen=True, slots=True)
class SuspendedTime:
    """A period in which this process was suspended: missing reports in it do not make readings stale."""

    since: float = NEVER
    end: float = NEVER

    def matters(self, now: float, grace: float) -> bool:
        """Whether the first reports after it may still arrive."""
        return now - self.end < grace

    def hides(self, at: Floats, fresh: Bools, stale_after: float) -> Bools:
        """Return which readings were fresh when the period began and are not now."""
        hidden: Bools = ~fresh & is_fresh(at, self.since, stale_after)
        return hidden


@dataclass(frozen=True, slots=True)
class DelayedReports:
    """Readings are fresh for `stale_after` seconds, and `reconnect` more where the port restarted meanwhile.

    However often it restarts, the longer time counts once, from the reading. What was stale at the first restart stays stale.
    """

    stale_after: float
    reconnect: float
    first: float = NEVER
    last: float = NEVER

    def restarted(self, at: float) -> Self:
        """Return this after a restart. Restarts belong together while readings from before may be fresh."""
        together = at - self.last < self.stale_after + self.reconnect
        return replace(self, first=self.first if together else at, last=at)

    def fresh(self, at: Floats, now: float) -> Bools:
        """Return which readings of these times are fresh."""
        found = is_fresh(at, now, self.stale_after)
        return found | self._kept(at, now) if self._matters(now) else found

    def next_expiry(self, times: Floats, now: float) -> float:
        """Return when the first of the fresh readings becomes stale; infinity without one."""
        usual = is_fresh(times, now, self.stale_after)
        found = float(times.min(where=usual, initial=np.inf)) + self.stale_after
        if not self._matters(now):
            return found
        kept = ~usual & self._kept(times, now)
        later = float(times.min(where=kept, initial=np.inf)) + self.stale_after + self.reconnect
        return min(found, later)

    def _matters(self, now: float) -> bool:
        return now - self.last <= self.stale_after + self.reconnect

    def _kept(self, at: Floats, now: float) -> Bools:
        kept: Bools = (
            (at < self.last)
            & is_fresh(at, self.first, self.stale_after)
            & is_fresh(at, now, self.stale_after + self.reconnect)
        )
        return kept

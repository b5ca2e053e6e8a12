"""What is decided of gangs: how each stands, in words for people, and which gates to lift. Times are Unix seconds."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from evaluator.gangs.core.packing import Shortage
from evaluator.gangs.core.podgroup import GangKey, about
from evaluator.model.pod_record import PodRecord

_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
"""Seconds for which a gang is left alone whose gates could not be lifted: the first time, and at most."""
_SHARE = 0.5
"""Of that, what chance takes off at most."""


class GangState(StrEnum):
    """How a gang stands."""

    INCOMPLETE = "Incomplete"
    """Fewer of its pods exist than it needs."""
    GATED_BY_OTHERS = "GatedByOthers"
    """Gates of others hold so many of its pods that too few could go."""
    WAITS_FOR_TURN = "WaitsForTurn"
    """Others go first."""
    WAITS_FOR_ROOM = "WaitsForRoom"
    """The nodes that it may go to have not enough room now."""
    TOO_LARGE = "TooLarge"
    """They would not have, were they empty."""
    NOT_LIFTED = "NotLifted"
    """It could go, but its gates could not be lifted."""
    RELEASED = "Released"
    """Its gates are lifted, and kube-scheduler is about to find nodes."""
    TIMED_OUT = "TimedOut"
    """Its gates are lifted, and kube-scheduler has not found nodes for all in time."""
    SCHEDULED = "Scheduled"
    """All of its pods have nodes."""

    @property
    def waits(self) -> bool:
        """Whether a gate of ours holds pods of it."""
        return self not in {GangState.RELEASED, GangState.TIMED_OUT, GangState.SCHEDULED}


@dataclass(frozen=True, slots=True)
class GangVerdict:
    """How a gang stands. `message` says the same as long as nothing changed: it has no times in it."""

    state: GangState
    message: str
    since: float
    """When it began to wait: when the oldest of the pods was made that our gate holds."""
    problems: tuple[str, ...] = ()
    """What is wrong with its labels, in sentences."""
    shortage: Shortage | None = None
    """What there was room for when it was last tried."""


class GangReason(StrEnum):
    """Why gates are lifted."""

    ADMITTED = "admitted"
    """The gang is complete, fits, and it is its turn."""
    REPLACEMENT = "replacement"
    """Its gang was admitted before."""
    OVERDUE = "overdue"
    """It has been held for longer than --gateMaxAge."""


@dataclass(frozen=True, slots=True)
class GangRelease:
    """Gates to lift now, in this order. One gang's, for one reason."""

    gang: GangKey
    reason: GangReason
    pods: tuple[PodRecord, ...]


class Reservation(NamedTuple):
    """What is remembered of a gang for which room was kept. It ends after a time, and begins again after a rest."""

    began: float
    misses: int = 0
    """Turns that ended without all of its pods having nodes, in a row."""
    rests_until: float = -math.inf
    """Until then no room is kept for it."""
    first: bool = False
    """Whether it is the one that the gang was admitted with: nobody else is admitted in it."""


class UngateFailure(NamedTuple):
    """What is remembered of a gang whose gates could not be lifted: it is left alone for a while, and holds up nobody."""

    why: str
    until: float
    times: int = 1
    """In a row."""


@dataclass(frozen=True, slots=True)
class GangHistory:
    """What one decision has to know of those before it. A leader begins with none of it."""

    admitted: Mapping[GangKey, frozenset[str]] = field(default_factory=dict)
    """The uids of the owners whose pods were admitted as this gang; empty for pods without an owner."""
    reservations: Mapping[GangKey, Reservation] = field(default_factory=dict)
    ungate_failures: Mapping[GangKey, UngateFailure] = field(default_factory=dict)
    unheld_until: float = -math.inf
    """Until then the line is held for no gang that does not fit."""
    retried_until: float = -math.inf
    """Until then room is kept for no other gang that was not placed in its first turn."""
    fresh: bool = True
    """Whether nothing was decided before."""

    def released(self, release: GangRelease, *, now: float) -> "GangHistory":
        """With gates lifted, at least one: to be called before the next decision, and only if it came to that."""
        ungate_failures = {
            key: one for key, one in self.ungate_failures.items() if key != release.gang
        }
        if release.reason is not GangReason.ADMITTED:
            return replace(self, ungate_failures=ungate_failures)
        owners = {about(pod).owner.uid for pod in release.pods}
        known = self.admitted.get(release.gang, frozenset())
        return replace(
            self,
            admitted={**self.admitted, release.gang: known | owners},
            reservations={**self.reservations, release.gang: Reservation(now, first=True)},
            ungate_failures=ungate_failures,
        )

    def ungate_failed(
        self, gang: GangKey, why: str, *, now: float, random: Callable[[], float]
    ) -> "GangHistory":
        """With a gang of whose gates not all could be lifted; it is tried again later, and later each time."""
        before = self.ungate_failures.get(gang)
        times = before.times if before else 0
        pause = min(_LONGEST_PAUSE, _PAUSE * 2.0 ** min(times, 30)) * (1.0 - _SHARE * random())
        failure = UngateFailure(why, now + pause, times + 1)
        return replace(self, ungate_failures={**self.ungate_failures, gang: failure})


@dataclass(frozen=True, slots=True)
class GangTimings:
    """What flags say; times are in seconds."""

    timeout: float = 60.0
    backoff: float = 10.0
    longest_backoff: float = 300.0
    ageing: float = 300.0
    gate_max_age: float = math.inf
    fit: bool = True
    """Whether there has to be room before a gang goes."""


@dataclass(frozen=True, slots=True)
class GangDecisions:
    """One decision. `again` is when time alone changes it."""

    verdicts: Mapping[GangKey, GangVerdict] = field(default_factory=dict)
    releases: tuple[GangRelease, ...] = ()
    """At most one of them admits a gang; the others are of pods whose turn it is whatever becomes of that."""
    timeouts: tuple[GangKey, ...] = ()
    """Gangs whose turn has just ended without all of their pods having nodes."""
    memory: GangHistory = field(default_factory=GangHistory)
    again: float = math.inf

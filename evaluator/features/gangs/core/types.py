"""Results of decide(): a verdict on each gang, the gates to remove, and the history for the next call. Times are Unix seconds."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from evaluator.core.model.pod_record import PodRecord
from evaluator.features.gangs.core.packing import Shortage
from evaluator.features.gangs.core.podgroup import GangKey, PodGroup, about

_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
"""Back-off of a gang whose gates could not be removed, in seconds: initial and maximum."""
_SHARE = 0.5
"""The largest part of a back-off that jitter subtracts."""


class GangState(StrEnum):
    """The state of a gang."""

    INCOMPLETE = "Incomplete"
    """Fewer than minAvailable pods exist."""
    GATED_BY_OTHERS = "GatedByOthers"
    """Gates of others hold pods, so that fewer than minAvailable could be scheduled."""
    WAITS_FOR_TURN = "WaitsForTurn"
    """Other gangs go first."""
    WAITS_FOR_ROOM = "WaitsForRoom"
    """Its eligible nodes lack free capacity."""
    TOO_LARGE = "TooLarge"
    """It would not fit on empty nodes."""
    NOT_LIFTED = "NotLifted"
    """It could be released, but its gates could not be removed."""
    RELEASED = "Released"
    """Its gates are removed; kube-scheduler is finding nodes."""
    TIMED_OUT = "TimedOut"
    """Its gates are removed; kube-scheduler has not found nodes for all pods in time."""
    SCHEDULED = "Scheduled"
    """All of its pods have nodes."""

    @property
    def waits(self) -> bool:
        """Whether our gate holds pods of the gang in this state."""
        return self not in {GangState.RELEASED, GangState.TIMED_OUT, GangState.SCHEDULED}


@dataclass(frozen=True, slots=True)
class GangVerdict:
    """The state of a gang. `message` contains no times: it changes only with the situation."""

    state: GangState
    message: str
    since: float
    """The creation time of its oldest gated pod."""
    problems: tuple[str, ...] = ()
    """Problems with its labels, in sentences."""
    shortage: Shortage | None = None
    """Why it did not fit."""


class GangReason(StrEnum):
    """Why gates are removed."""

    ADMITTED = "admitted"
    """The gang is complete, fits and is first."""
    REPLACEMENT = "replacement"
    """The gang was admitted before."""
    OVERDUE = "overdue"
    """The pod is older than --gateMaxAge."""


@dataclass(frozen=True, slots=True)
class GangRelease:
    """Pods of one gang to ungate now, in this order."""

    gang: GangKey
    reason: GangReason
    pods: tuple[PodRecord, ...]

    def due(self, gang: PodGroup) -> list[PodRecord]:
        """Return the pods that the release still applies to, given the gang now; empty if its reason no longer holds.

        They are in the order of the release; new pods come last.
        """
        order = {pod.uid: number for number, pod in enumerate(self.pods)}
        return sorted(self._due(gang), key=lambda pod: order.get(pod.uid, len(order)))

    def _due(self, gang: PodGroup) -> Iterable[PodRecord]:
        match self.reason:
            case GangReason.OVERDUE:
                meant = {pod.uid for pod in self.pods}
                return [pod for pod in gang.gated if pod.uid in meant]
            case GangReason.REPLACEMENT:
                owners = {about(pod).owner.uid for pod in self.pods}
                pods = [pod for pod in gang.releasable if about(pod).owner.uid in owners]
                return pods if gang.has_quorum(admitted=True) else ()
            case GangReason.ADMITTED:
                can_go = gang.existing - len(gang.foreign) >= gang.minimum
                return gang.releasable if gang.has_quorum(admitted=False) and can_go else ()


class Reservation(NamedTuple):
    """Capacity kept for a gang. It ends after a timeout and may begin again after a back-off."""

    began: float
    misses: int = 0
    """Consecutive reservations that timed out before all pods had nodes."""
    rests_until: float = -math.inf
    """End of the back-off, during which no capacity is kept."""
    first: bool = False
    """Whether it began with the gang's admission; no other gang is admitted during it."""


class UngateFailure(NamedTuple):
    """A gang whose gates could not be removed: it is skipped until `until`."""

    why: str
    until: float
    times: int = 1
    """Consecutive failures."""


@dataclass(frozen=True, slots=True)
class GangHistory:
    """State carried from one decision to the next. A new leader starts with an empty one."""

    admitted: Mapping[GangKey, frozenset[str]] = field(default_factory=dict)
    """The uids of the owners of the gang's admitted pods; "" for pods without an owner."""
    reservations: Mapping[GangKey, Reservation] = field(default_factory=dict)
    ungate_failures: Mapping[GangKey, UngateFailure] = field(default_factory=dict)
    unheld_until: float = -math.inf
    """Until then the queue is not blocked for aged gangs that do not fit."""
    retried_until: float = -math.inf
    """Until then no other timed-out gang gets a reservation again."""
    fresh: bool = True
    """Whether there was no decision before."""

    def released(self, release: GangRelease, *, now: float) -> "GangHistory":
        """Return the history after a release of which at least one gate was removed. Call it before the next decision."""
        ungate_failures = {
            key: failure for key, failure in self.ungate_failures.items() if key != release.gang
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
        """Return the history after a gang's gates could not all be removed; the back-off grows with each failure."""
        before = self.ungate_failures.get(gang)
        times = before.times if before else 0
        pause = min(_LONGEST_PAUSE, _PAUSE * 2.0 ** min(times, 30)) * (1.0 - _SHARE * random())
        failure = UngateFailure(why, now + pause, times + 1)
        return replace(self, ungate_failures={**self.ungate_failures, gang: failure})


@dataclass(frozen=True, slots=True)
class GangTimings:
    """Timings set by flags, in seconds."""

    timeout: float = 60.0
    backoff: float = 10.0
    longest_backoff: float = 300.0
    ageing: float = 300.0
    gate_max_age: float = math.inf
    fit: bool = True
    """Whether a gang must fit on the nodes before it is released."""


@dataclass(frozen=True, slots=True)
class GangDecisions:
    """One decision. `again` is the time at which it changes if no object does."""

    verdicts: Mapping[GangKey, GangVerdict] = field(default_factory=dict)
    releases: tuple[GangRelease, ...] = ()
    """At most one admits a gang; the others are independent of it."""
    timeouts: tuple[GangKey, ...] = ()
    """Gangs whose reservation has just ended before all of their pods had nodes."""
    memory: GangHistory = field(default_factory=GangHistory)
    again: float = math.inf

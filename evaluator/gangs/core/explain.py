"""Why a gang waits, or does not, as plain data: its members, its place in the line, and on which nodes how much of it fits. No I/O."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.gangs.core.explain_fit import Fit, asked
from evaluator.gangs.core.packing import Capacity
from evaluator.gangs.core.pod_shape import shapes
from evaluator.gangs.core.podgroup import GangKey, PodGroup, about
from evaluator.gangs.core.types import GangDecisions, GangTimings, Reservation
from evaluator.model.gang_membership import GATE, QoS
from evaluator.model.pod_record import Key, PodRecord
from evaluator.model.pods import FINISHED
from plimsoll import rfc3339

_NAMED = 10
"""Gangs that are named of those that go before, and of those that there are."""
_CLASSES = {
    QoS.GUARANTEED: "Guaranteed",
    QoS.BURSTABLE: "Burstable",
    QoS.BEST_EFFORT: "BestEffort",
}
_ELSEWHERE = "another replica decides, the holder of the Lease: its /explain tells state and turn; all else is the same here"


@dataclass(frozen=True)
class GangExplainer:
    """What this replica knows of gangs. `decides`: whether it is the one that lets them go; `now`: Unix seconds."""

    gangs: Callable[[], Mapping[GangKey, PodGroup]]
    outcome: Callable[[], GangDecisions]
    capacity: Callable[[], Capacity]
    terms: GangTimings
    now: Callable[[], float]
    waiting_for: Callable[[], Sequence[str]] = tuple
    """What is missing before anything can be told."""
    undecided: Callable[[], Sequence[str]] = tuple
    """Why nothing is decided now."""
    catching_up: Callable[[], Iterator[None]] = lambda: iter(())
    """The larger part of the work on `space()`, in steps."""
    blockers: Callable[[GangKey], Sequence[str]] = lambda _key: ()
    native: Callable[[], Mapping[Key, PodRecord]] = dict
    decides: Callable[[], bool] = lambda: True

    def find(self, name: str) -> PodGroup | None:
        """The gang called namespace/podGroup; or the pod that is held without belonging to one."""
        namespace, _, rest = name.partition("/")
        gangs = self.gangs()
        return gangs.get(GangKey(namespace, rest)) or gangs.get(
            GangKey(namespace, rest, alone=True)
        )

    def unknown(self, name: str) -> str:
        """Why there is nothing to tell of a gang, and of which there is."""
        namespace, _, rest = name.partition("/")
        if (namespace, rest) in self.native():
            return f"pod {name} names a spec.schedulingGroup: Kubernetes schedules its group, and nobody lifts our gate"
        gangs = self.gangs()
        nearest = heapq.nsmallest(_NAMED, gangs, key=lambda key: (key.namespace != namespace, key))
        known, more = list(map(str, nearest)), len(gangs) - len(nearest)
        return (
            f"no gang {name} (written as <namespace>/<podGroup>, and <namespace>/<pod> for one that is held alone); "
            f"known: {', '.join(known) or 'none'}" + (f" and {more} more" if more else "")
        )

    def waiting(self) -> Iterator[PodGroup]:
        """All gangs that wait, each with its rank worked out."""
        for gang in tuple(self.gangs().values()):
            if gang.gated and gang.rank:
                yield gang

    def queue(self, waiting: Iterable[PodGroup]) -> Iterator[dict[str, Any]]:
        """Some gangs in their order, with how each stands."""
        verdicts = self.outcome().verdicts
        for gang in sorted(waiting, key=lambda gang: gang.rank):
            verdict = verdicts.get(gang.key)
            yield {
                "gang": str(gang.key),
                "explain": f"/explain?gang={gang.key}",
                "state": str(verdict.state) if verdict else None,
                "message": verdict.message if verdict else None,
                "groupPriority": -gang.rank.priority,
                "held": len(gang.gated),
            }

    def line(self, gang: PodGroup) -> Iterator[GangKey | None]:
        """For each other gang that waits, its name if it goes before this one."""
        for other in tuple(self.gangs().values()):
            if other.gated and other.key != gang.key:
                yield other.key if other.rank < gang.rank else None

    def head(self, gang: PodGroup, line: Sequence[GangKey | None]) -> dict[str, Any]:
        """What there is to tell of the whole; `line` is what `line()` found."""
        return {
            "waitingFor": list(self.undecided()),
            "gang": str(gang.key),
            "alone": gang.key.alone,
            **self._standing(gang),
            "quorum": _quorum(gang),
            "rank": self._rank(gang, line),
            "problems": list(gang.problems),
            "obstacles": list(self.blockers(gang.key)),
            "needsRoom": self.terms.fit,
        }

    def fit(self, gang: PodGroup) -> Fit:
        """Where its pods fit that have no node yet, beside those for which room is kept."""
        gangs, reservations = (
            self.gangs(),
            self.outcome().memory.reservations if self.decides() else {},
        )
        kept = [
            gangs[key]
            for key, reservation in reservations.items()
            if key in gangs and self._keeps(reservation)
        ]
        return Fit.of(
            self.capacity(),
            shapes((*gang.gated, *gang.unplaced)),
            [shapes(other.awaited) for other in kept if other is not gang],
        )

    def _standing(self, gang: PodGroup) -> dict[str, Any]:
        if not self.decides():
            return {"state": None, "message": _ELSEWHERE}
        outcome = self.outcome()
        verdict = outcome.verdicts.get(gang.key)
        if verdict is None:
            return {"state": None, "message": "nothing is decided of it yet"}
        found: dict[str, Any] = {"state": str(verdict.state), "message": verdict.message}
        if verdict.state.waits and verdict.since:
            found["waitingSeconds"] = round(max(0.0, self.now() - verdict.since), 3)
        if (shortage := verdict.shortage) is not None:
            found["shortage"] = dict(zip(shortage._fields, shortage, strict=True))
        if gang.key in outcome.memory.admitted:
            found["admitted"] = sorted(filter(None, outcome.memory.admitted[gang.key]))
        if (reservation := outcome.memory.reservations.get(gang.key)) is not None:
            found["turn"] = self._reservation(reservation)
        return found

    def _reservation(self, reservation: Reservation) -> dict[str, Any]:
        rests = reservation.rests_until > self.now()
        return {
            "began": rfc3339.millis(reservation.began),
            "ends": None if rests else rfc3339.millis(reservation.began + self.terms.timeout),
            "restsUntil": rfc3339.millis(reservation.rests_until) if rests else None,
            "timeouts": reservation.misses,
        }

    def _keeps(self, reservation: Reservation) -> bool:
        return reservation.rests_until <= self.now() < reservation.began + self.terms.timeout

    def _rank(self, gang: PodGroup, line: Sequence[GangKey | None]) -> dict[str, Any]:
        rank, gangs = gang.rank, self.gangs()
        there = [gangs[key] for key in line if key is not None and key in gangs]
        before = sorted(there, key=lambda other: other.rank)
        return {
            "groupPriority": -rank.priority,
            "qosClass": _CLASSES[rank.qos],
            "created": rfc3339.millis(rank.created) if rank.created else None,
            "place": len(before) + 1 if gang.gated else None,
            "of": len(line) + bool(gang.gated),
            "before": [str(other.key) for other in before[:_NAMED]],
        }


def members(gang: PodGroup) -> Iterator[tuple[str, dict[str, Any]]]:
    """Its pods, each with what it waits for."""
    for pod in gang.pods:
        member = about(pod)
        yield (
            pod.name,
            {
                "state": _state(pod),
                "node": pod.node or None,
                "gates": [*([GATE] if member.gated else []), *member.foreign],
                "admitted": rfc3339.millis(member.admitted)
                if member.admitted is not None
                else None,
                "created": rfc3339.millis(pod.created) if pod.created is not None else None,
                "owner": f"{member.owner.kind} {member.owner.name}" if member.owner.kind else None,
                "minAvailable": member.minimum,
                "groupPriority": member.priority,
                "requests": asked(pod.requests, pod.others),
                "problems": [*member.problems, *pod.problems],
            },
        )


def _state(pod: PodRecord) -> str:
    if pod.phase in FINISHED:
        return f"finished: {pod.phase}"
    if pod.leaving:
        return "being deleted"
    if pod.node:
        return "has a node"
    if about(pod).held:
        return "held"
    return "kube-scheduler is to find a node"


def _quorum(gang: PodGroup) -> dict[str, Any]:
    return {
        "minAvailable": gang.minimum,
        "existing": gang.existing,
        "complete": gang.complete,
        "countsAll": gang.count_all,
        "held": len(gang.gated),
        "heldByOthers": len(gang.foreign),
        "withoutNode": len(gang.unplaced),
        "withNode": len(gang.placed),
        "succeeded": gang.succeeded,
    }

"""What events tell of gangs: on which of their pods, and in which words. No I/O, no clock."""

from collections.abc import Sequence

from evaluator.gangs.core.podgroup import PodGroup
from evaluator.gangs.core.types import GangState, GangVerdict
from evaluator.model.pod_record import PodRecord
from evaluator.plans.policy_events import EventSpec

NORMAL, WARNING = "Normal", "Warning"

_ALARMING = frozenset({GangState.TOO_LARGE, GangState.NOT_LIFTED, GangState.TIMED_OUT})
"""What only a person can change, or should know of; everything else is waiting as it was asked for."""


def concerned(gang: PodGroup, verdict: GangVerdict) -> tuple[PodRecord, ...]:
    """The pods that wait: those that our gate holds, and those that it held until their gang was released and that have no node.

    One that never had it is none of our concern: gangs cost nothing where nothing is gated.
    """
    if verdict.state.waits:
        return gang.gated
    return (*gang.gated, *gang.awaited) if verdict.state is not GangState.SCHEDULED else ()


def notes(verdict: GangVerdict, blockers: Sequence[str] = ()) -> tuple[EventSpec, ...]:
    """What to tell on each of them, one notice for one reason; `obstacles`: why the gang can never be complete as things are."""
    kind = WARNING if verdict.state in _ALARMING else NORMAL
    told = [EventSpec(kind, f"Gang{verdict.state}", verdict.message)]
    if blockers:
        told.append(EventSpec(WARNING, "GangCannotComplete", "; ".join(blockers)))
    if verdict.problems:
        told.append(EventSpec(WARNING, "GangLabels", "; ".join(verdict.problems)))
    return tuple(told)


def overdue(verdict: GangVerdict | None) -> EventSpec:
    """Of a pod that is let through though its gang is not ready."""
    why = f"; its gang was not ready: {verdict.message}" if verdict and verdict.state.waits else ""
    sentence = f"let through, as it was held for longer than --gateMaxAge{why}"
    return EventSpec(WARNING, "GangOverdue", sentence)


def native() -> EventSpec:
    """Of a pod that bears our gate and is one of a group that Kubernetes itself schedules."""
    sentence = (
        "it names a spec.schedulingGroup, so Kubernetes schedules its group, and nobody lifts the gate plimsoll.io/gang "
        "that it bears too: take one of the two from its template"
    )
    return EventSpec(WARNING, "GangNative", sentence)

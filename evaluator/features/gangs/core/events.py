"""The Events of gangs: on which of their pods, with which reason and message. No I/O, no clock."""

from collections.abc import Sequence

from evaluator.core.model.events import EventSpec
from evaluator.core.model.pod_record import PodRecord
from evaluator.features.gangs.core.podgroup import PodGroup
from evaluator.features.gangs.core.types import GangState, GangVerdict

NORMAL, WARNING = "Normal", "Warning"

_ALARMING = frozenset({GangState.TOO_LARGE, GangState.NOT_LIFTED, GangState.TIMED_OUT})
"""States that need a person's attention; the others are ordinary waiting."""


def concerned(gang: PodGroup, verdict: GangVerdict) -> tuple[PodRecord, ...]:
    """Return the pods to write events on: gated ones, and after a release those without a node.

    Pods that never had our gate get no events.
    """
    if verdict.state.waits:
        return gang.gated
    return (*gang.gated, *gang.placing) if verdict.state is not GangState.SCHEDULED else ()


def notes(verdict: GangVerdict, blockers: Sequence[str] = ()) -> tuple[EventSpec, ...]:
    """Return the events for each of these pods, one per reason. `blockers`: why its missing pods are not created."""
    kind = WARNING if verdict.state in _ALARMING else NORMAL
    specs = [EventSpec(kind, f"Gang{verdict.state}", verdict.message)]
    if blockers:
        specs.append(EventSpec(WARNING, "GangCannotComplete", "; ".join(blockers)))
    if verdict.problems:
        specs.append(EventSpec(WARNING, "GangLabels", "; ".join(verdict.problems)))
    return tuple(specs)


def overdue(verdict: GangVerdict | None) -> EventSpec:
    """Return the event for a pod that is ungated by --gateMaxAge before its gang is ready."""
    why = f"; its gang was not ready: {verdict.message}" if verdict and verdict.state.waits else ""
    sentence = f"ungated, as it was held for longer than --gateMaxAge{why}"
    return EventSpec(WARNING, "GangOverdue", sentence)


def native() -> EventSpec:
    """Return the event for a pod with our gate that is in a group that Kubernetes itself schedules."""
    sentence = (
        "the pod has a spec.schedulingGroup and the gate plimsoll.io/gang: Kubernetes schedules its group, and the gate "
        "is never removed; remove one of the two from its template"
    )
    return EventSpec(WARNING, "GangNative", sentence)

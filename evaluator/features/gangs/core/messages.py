"""Messages and Events about gangs. A message is one sentence that changes only if the gang's situation does. No I/O."""

from collections.abc import Sequence

from evaluator.core.model.events import EventSpec
from evaluator.core.model.feasibility import EXCLUDED_BY
from evaluator.core.model.pod_record import PodRecord
from evaluator.features.gangs.core.packing import Shortage
from evaluator.features.gangs.core.podgroup import PodGroup, about
from evaluator.features.gangs.core.types import GangState, GangVerdict
from plimsoll.text import counted

SCHEDULED = "all pods have nodes"
RELEASED = "ungated; kube-scheduler is finding nodes for its pods"
TIMED_OUT = (
    "ungated, but kube-scheduler has not found nodes for all pods in time; other gangs proceed"
)
WORKS = "minAvailable pods have nodes; kube-scheduler has found none for the others yet"
WAITS_FOR_TURN = "complete, waiting for its turn: other gangs go first"
NORMAL, WARNING = "Normal", "Warning"

_ALARMING = frozenset({GangState.TOO_LARGE, GangState.NOT_LIFTED, GangState.TIMED_OUT})
"""States that need a person's attention; the others are ordinary waiting."""


def incomplete(gang: PodGroup, *, admitted: bool) -> str:
    """Return how many of the required pods exist."""
    sentence = f"{gang.existing} of {gang.minimum} pods of podGroup {gang.key.name} exist"
    return (
        f"{sentence}; it was admitted before and waits for replacements" if admitted else sentence
    )


def gated_by_others(gang: PodGroup) -> str:
    """Return which gates of others hold its pods."""
    gates = sorted({gate for pod in gang.foreign for gate in about(pod).foreign})
    pods = counted(len(gang.living), "pod")
    held = counted(len(gang.foreign), f"of its {pods} is held", f"of its {pods} are held")
    return f"{held} by other gates ({', '.join(gates)}); {gang.minimum} must be without them"


def not_lifted(why: str) -> str:
    """Return the API server's error."""
    return f"its gates could not be removed; retrying: {why}"


def waits_for_capacity(gang: PodGroup, shortage: Shortage) -> str:
    """Return which resource is short now."""
    pods = _pods(gang, shortage)
    if not shortage.nodes:
        return f"complete, but {_policies(gang)} rejects every node that {pods} could run on"
    return f"complete, waiting for capacity for {pods}; short of {shortage.short}"


def too_large(gang: PodGroup, shortage: Shortage) -> str:
    """Return which resource would be short on empty nodes."""
    pods = _pods(gang, shortage)
    if not shortage.nodes:
        return f"no node can run {pods}, even if empty: excluded by {EXCLUDED_BY}"
    return f"too large: even empty nodes have no capacity for {pods}; short of {shortage.short}"


def _pods(gang: PodGroup, shortage: Shortage) -> str:
    if gang.key.alone:
        return "this pod"
    there = len(gang.living)
    return (
        f"its {there} pods"
        if shortage.requested == there
        else f"{shortage.requested} of its {there} pods"
    )


def _policies(gang: PodGroup) -> str:
    names = sorted({str(policy) for pod in gang.releasable if (policy := about(pod).policy)})
    return f"policy {' and '.join(names)}" if names else "a policy"


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

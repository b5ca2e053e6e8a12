"""Messages and Events about gangs, and why their controllers do not create the pods they lack. No I/O.

A message is one sentence that changes only if the gang's situation does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from evaluator.core.model.events import EventSpec
from evaluator.core.model.feasibility import EXCLUDED_BY
from evaluator.core.model.pod_record import PodRecord
from evaluator.features.gangs.core.controllers import PodController
from evaluator.features.gangs.core.packing import Shortage
from evaluator.features.gangs.core.podgroup import PodGroup, about
from evaluator.features.gangs.core.types import GangState, GangVerdict
from plimsoll.text import counted, one_line

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
_RECREATE = "recreate it with podManagementPolicy Parallel"


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


class CreateFailure(NamedTuple):
    """The API server's message to a controller (kind and name) whose pod it rejected."""

    controller: str
    message: str


@dataclass(frozen=True, slots=True)
class GangContext:
    """What the API server has about a gang's controllers. Objects that could not be read are left out."""

    controllers: Mapping[str, PodController] = field(default_factory=dict)
    """By uid: the controllers of its pods that are of a supported kind."""
    failures: Mapping[str, CreateFailure] = field(default_factory=dict)
    """By uid: the last failure of controllers, of any kind, to create a pod."""


def blockers(gang: PodGroup, context: GangContext, *, admitted: bool = False) -> tuple[str, ...]:
    """Return why the missing pods are not created, in sentences; empty for a gang with its quorum.

    The sentences change only if the cause does, as they become the texts of events.
    """
    missing = gang.missing(admitted=admitted)
    if not missing:
        return ()
    sentences = (*_of_controllers(gang, context, missing), *_create_failures(gang, context))
    return tuple(dict.fromkeys(map(one_line, sentences)))


def _of_controllers(gang: PodGroup, context: GangContext, missing: int) -> Iterator[str]:
    by_owner = _by_owner(gang)
    known = {
        uid: known_controller
        for uid, known_controller in context.controllers.items()
        if uid in by_owner
    }
    for uid, controller in known.items():
        gated = any(about(pod).gated for pod in by_owner[uid])
        yield from _of_one(controller, pods=len(by_owner[uid]), gated=gated)
    if known.keys() == by_owner.keys():
        counts = {uid: len(pods) for uid, pods in by_owner.items()}
        yield from _too_few(gang, known, counts, missing)


def _of_one(controller: PodController, *, pods: int, gated: bool) -> Iterator[str]:
    if controller.halted:
        yield f"{controller} {controller.halted}"
    elif gated and (rollout := controller.rollout) is not None:
        yield (
            f"{rollout.by} has replaced {rollout.replaced} of {rollout.replicas} pods and waits for them to become ready, "
            f"which gated pods never do: {_rollout_hint(controller)}"
        )
    elif controller.ordered and gated and pods < controller.limit.pods:
        yield (
            f"{controller} waits for each pod to become ready before it creates the next (podManagementPolicy "
            f"OrderedReady), which gated pods never do: {_RECREATE}"
        )


def _rollout_hint(controller: PodController) -> str:
    if controller.owner.kind == "ReplicaSet":
        return "use the strategy Recreate, which replaces all pods at once"
    return _RECREATE if controller.ordered else "delete the pods of the old template"


def _too_few(
    gang: PodGroup,
    controllers: Mapping[str, PodController],
    counts: Mapping[str, int],
    missing: int,
) -> Iterator[str]:
    active = {uid: controller for uid, controller in controllers.items() if not controller.halted}
    more = sum(max(0, controller.limit.pods - counts[uid]) for uid, controller in active.items())
    if active and more < missing:
        each = ", ".join(map(_limited, active.values()))
        most = gang.minimum - missing + more
        yield f"{each}: at most {most} of the {counted(gang.minimum, 'required pod')} can exist"


def _limited(controller: PodController) -> str:
    limit = controller.limit
    return f"{controller} creates at most {counted(limit.pods, 'pod')} ({limit.fields})"


def _by_owner(gang: PodGroup) -> dict[str, list[PodRecord]]:
    """Return the living pods that count for the gang by the uid of their controller; "" for pods without one."""
    pods_by_owner: dict[str, list[PodRecord]] = {}
    for pod in gang.counting:
        pods_by_owner.setdefault(about(pod).owner.uid, []).append(pod)
    return pods_by_owner


def _create_failures(gang: PodGroup, context: GangContext) -> Iterator[str]:
    for uid in _by_owner(gang):
        if (failure := context.failures.get(uid)) is not None:
            yield f"{failure.controller} failed to create a pod: {failure.message}"

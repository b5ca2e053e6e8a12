"""Why a gang's controllers do not create the pods it lacks. No I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from evaluator.core.model.pod_record import PodRecord
from evaluator.features.gangs.core.controllers import PodController
from evaluator.features.gangs.core.podgroup import PodGroup, about
from plimsoll.text import counted, one_line

_RECREATE = "recreate it with podManagementPolicy Parallel"


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

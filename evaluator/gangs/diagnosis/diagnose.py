"""Why a gang that lacks pods will not get them as things are: its controllers, and the quotas of its namespace. No I/O."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from evaluator.gangs.core.podgroup import PodGroup, about
from evaluator.gangs.diagnosis.controllers import PodController
from evaluator.gangs.diagnosis.quota_usage import Member
from evaluator.gangs.diagnosis.quotas import Missing, Quota, in_the_way
from evaluator.model.pod_record import PodRecord
from plimsoll.text import counted, one_line

_ANEW = "make it anew with podManagementPolicy Parallel"


class CreateFailure(NamedTuple):
    """What the API server said to a controller of pods, and the kind and name of that."""

    to: str
    words: str


@dataclass(frozen=True, slots=True)
class GangContext:
    """What was found around a gang. What could not be read is not in it, and nothing is claimed of it."""

    pods: tuple[Member, ...] = ()
    quotas: tuple[Quota, ...] = ()
    makers: Mapping[str, PodController] = field(default_factory=dict)
    """By uid: the controllers of its pods, as far as they are of kinds that are looked into."""
    refusals: Mapping[str, CreateFailure] = field(default_factory=dict)
    """By uid: why a controller of its pods, of any kind, could not make the one that it tried to make last."""


def blockers(gang: PodGroup, scene: GangContext, *, admitted: bool = False) -> tuple[str, ...]:
    """Sentences that stay the same as long as nothing changes; none for a gang that has its quorum."""
    missing = gang.missing(admitted=admitted)
    if not missing:
        return ()
    quotas = {one.metadata.name: [*_of_quota(gang, scene, one, missing)] for one in scene.quotas}
    told = [name for name, sentences in quotas.items() if sentences]
    makers = _of_makers(gang, scene, missing)
    found = (*makers, *chain(*quotas.values()), *_refusals(gang, scene, told))
    return tuple(dict.fromkeys(map(one_line, found)))


def _of_makers(gang: PodGroup, scene: GangContext, missing: int) -> Iterator[str]:
    by_owner = _by_owner(gang)
    known = {uid: maker for uid, maker in scene.makers.items() if uid in by_owner}
    for uid, maker in known.items():
        held = any(about(pod).gated for pod in by_owner[uid])
        yield from _of_one(maker, pods=len(by_owner[uid]), held=held)
    if known.keys() == by_owner.keys():
        counts = {uid: len(pods) for uid, pods in by_owner.items()}
        yield from _too_few(gang, known, counts, missing)


def _of_one(maker: PodController, *, pods: int, held: bool) -> Iterator[str]:
    if maker.halted:
        yield f"{maker} {maker.halted}"
    elif held and (rollout := maker.rollout) is not None:
        yield (
            f"{rollout.by} replaces its pods a few at a time, by now {rollout.replaced} of {rollout.replicas}, and waits "
            f"for those to be ready, which one that is held never is: {_what_helps(maker)}"
        )
    elif maker.ordered and held and pods < maker.most.pods:
        yield (
            f"{maker} makes a pod only when the one before it is ready (podManagementPolicy OrderedReady), "
            f"and one that is held never is: {_ANEW}"
        )


def _what_helps(maker: PodController) -> str:
    """Against a rollout that waits for ever."""
    if maker.reference.kind == "ReplicaSet":
        return "the strategy Recreate replaces all at once"
    return _ANEW if maker.ordered else "delete the pods of the old template"


def _too_few(
    gang: PodGroup, makers: Mapping[str, PodController], counts: Mapping[str, int], missing: int
) -> Iterator[str]:
    """What all of them make together is not enough."""
    at_work = {uid: maker for uid, maker in makers.items() if not maker.halted}
    more = sum(max(0, maker.most.pods - counts[uid]) for uid, maker in at_work.items())
    if at_work and more < missing:
        each = ", ".join(map(_limited, at_work.values()))
        most = gang.minimum - missing + more
        yield f"{each}: no more than {most} of the {counted(gang.minimum, 'pod')} that are needed"


def _limited(maker: PodController) -> str:
    most = maker.most
    return f"{maker} makes {most.pods} at once ({most.fields})"


def _by_owner(gang: PodGroup) -> dict[str, list[PodRecord]]:
    """The living pods that count for it by the uid of their controller; empty for those that have none."""
    found: dict[str, list[PodRecord]] = {}
    for pod in gang.counting:
        found.setdefault(about(pod).owner.uid, []).append(pod)
    return found


def _of_quota(gang: PodGroup, scene: GangContext, quota: Quota, missing: int) -> Iterator[str]:
    living = {pod.uid for pod in gang.counting}
    pods = [pod for pod in scene.pods if pod.uid in living]
    return in_the_way(quota, pods, Missing(missing, len(living)))


def _refusals(gang: PodGroup, scene: GangContext, told: Sequence[str]) -> Iterator[str]:
    """What the API server said, but for what is said already, in better words, of the quota that it names."""
    for uid in _by_owner(gang):
        if (refusal := scene.refusals.get(uid)) is None:
            continue
        if not any(refusal.words.startswith(f"exceeded quota: {name},") for name in told):
            yield f"{refusal.to} could not make a pod when it tried last: {refusal.words}"

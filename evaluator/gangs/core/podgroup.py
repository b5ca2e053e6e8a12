"""A gang as it stands: its pods, sorted by what they are to it. No I/O; times are Unix seconds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from evaluator.gangs.core.pod_shape import PodShape, shapes
from evaluator.model.gang_membership import Membership, QoS
from evaluator.model.pod_record import PodRecord
from evaluator.model.pods import FINISHED
from plimsoll.text import counted

_NOBODY = Membership()


class GangKey(NamedTuple):
    """A gang by namespace and the label `podGroup`; or a pod that is gated and belongs to none, by its own name."""

    namespace: str
    name: str
    alone: bool = False

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Rank(NamedTuple):
    """The place in the queue: the smaller, the earlier."""

    priority: int
    """Of `groupPriority`, negated."""
    qos: QoS
    created: float
    key: GangKey


def gang_of(pod: PodRecord) -> GangKey | None:
    """The gang that a pod belongs to; itself, if it belongs to none and waits by our gate, or for a node ever since.

    None for all others.
    """
    about = pod.membership
    if about is None or about.native:
        return None
    if about.minimum:
        return GangKey(pod.namespace, about.group)
    waits = about.gated or (about.admitted is not None and not pod.node)
    return GangKey(pod.namespace, pod.name, alone=True) if waits else None


def gang_beside(pod: PodRecord) -> GangKey | None:
    """The gang that a pod counts for without being held with it: one of the same label `podGroup` that names no number."""
    about = pod.membership
    if about is None or about.native or not about.beside:
        return None
    return GangKey(pod.namespace, about.beside)


@dataclass(frozen=True)
class PodGroup:
    """All pods of a gang that there are, finished ones and those on their way out included; in the order of their names.

    `beside`: pods that count for it and are not held with it. `count_all`: finished ones and those on their way out count
    for the quorum too, as the scheduler plugin has it that gangs were taken from.
    """

    key: GangKey
    pods: tuple[PodRecord, ...]
    count_all: bool = False
    beside: tuple[PodRecord, ...] = ()

    @cached_property
    def living(self) -> tuple[PodRecord, ...]:
        """Those that run or can still run."""
        return tuple(filter(_lives, self.pods))

    @cached_property
    def minimum(self) -> int:
        """Pods that have to exist. Where they name different numbers, the largest; 1 for a pod alone."""
        return max((about(pod).minimum for pod in self.living), default=0) or 1

    @cached_property
    def existing(self) -> int:
        """Pods that count for the quorum."""
        if self.count_all:
            return len(self.pods) + len(self.beside)
        return len(self.counting)

    @cached_property
    def counting(self) -> tuple[PodRecord, ...]:
        """Its living pods, and those beside it."""
        return (*self.living, *filter(_lives, self.beside))

    @property
    def complete(self) -> bool:
        """Whether it has its quorum."""
        return self.existing >= self.minimum

    def has_quorum(self, *, admitted: bool) -> bool:
        """Whether enough of its pods exist. Of a gang that was admitted, those that have done their work are not missing."""
        return not self.missing(admitted=admitted)

    def missing(self, *, admitted: bool) -> int:
        """How many pods more have to exist for that."""
        done = self.succeeded if admitted and not self.count_all else 0
        return max(0, self.minimum - self.existing - done)

    @cached_property
    def gated(self) -> tuple[PodRecord, ...]:
        """Living pods that our gate holds."""
        return tuple(pod for pod in self.living if about(pod).gated)

    @cached_property
    def releasable(self) -> tuple[PodRecord, ...]:
        """Living pods that our gate alone holds."""
        return tuple(pod for pod in self.gated if not about(pod).foreign)

    @cached_property
    def demand(self) -> Mapping[PodShape, int]:
        """What the liftable ones ask for."""
        return shapes(self.releasable)

    @cached_property
    def foreign(self) -> tuple[PodRecord, ...]:
        """Living pods that gates of others hold."""
        return tuple(pod for pod in self.living if about(pod).foreign)

    @cached_property
    def placed(self) -> tuple[PodRecord, ...]:
        """Living pods that have a node."""
        return tuple(pod for pod in self.living if pod.node)

    @property
    def works(self) -> bool:
        """Whether as many have a node as it needs: what else there is of it is welcome and not missed."""
        return len(self.placed) >= self.minimum

    @cached_property
    def unplaced(self) -> tuple[PodRecord, ...]:
        """Living pods that no gate holds and that have no node yet."""
        return tuple(pod for pod in self.living if not pod.node and not about(pod).held)

    @cached_property
    def awaited(self) -> tuple[PodRecord, ...]:
        """Of these, the ones whose gate was lifted: kube-scheduler is about to find nodes for them."""
        return tuple(pod for pod in self.unplaced if about(pod).admitted is not None)

    @cached_property
    def ungated_at(self) -> float | None:
        """When the last gate of those that are awaited was lifted."""
        return max(
            (at for pod in self.awaited if (at := about(pod).admitted) is not None), default=None
        )

    @cached_property
    def admitted(self) -> frozenset[str]:
        """The uids of the owners of whom pods were admitted, as the pods say that are left of them.

        A pod without an owner has no successor, only namesakes: it tells of its gang as long as it lives.
        """
        told = [pod for pod in self.pods if about(pod).admitted is not None]
        owners = {uid for pod in told if (uid := about(pod).owner.uid)}
        alone = any(
            not about(pod).owner.uid for pod in self.living if about(pod).admitted is not None
        )
        return frozenset(owners | ({""} if alone else set()))

    @cached_property
    def succeeded(self) -> int:
        """Pods that have done their work."""
        return sum(pod.phase == "Succeeded" for pod in (*self.pods, *self.beside))

    @cached_property
    def rank(self) -> Rank:
        """By the most important of the living, the lowest QoS class, and the oldest."""
        members = [about(pod) for pod in self.living]
        return Rank(
            -max((member.priority for member in members), default=0),
            max((member.qos for member in members), default=QoS.BEST_EFFORT),
            self.created,
            self.key,
        )

    @cached_property
    def created(self) -> float:
        """When the oldest was made of those that our gate holds, or of all living ones, if it holds none; 0 where nobody says.

        A gang that has run for weeks and gets one more pod has not waited for weeks.
        """
        waiting = self.gated or self.living
        return min((pod.created for pod in waiting if pod.created is not None), default=0.0)

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with its labels, each in a sentence."""
        told = dict.fromkeys(text for pod in self.living for text in about(pod).problems)
        return (*told, *self._mismatches())

    def _mismatches(self) -> Iterable[str]:
        minima = sorted({about(pod).minimum for pod in self.living})
        if len(minima) > 1:
            yield f"its pods name different minAvailable: {_listed(minima)}; the largest counts"
        if self.beside:
            pods = counted(len(self.beside), "of its pods names", "of its pods name")
            yield f"{pods} no minAvailable above 1: they count, and do not wait for the others"
        priorities = sorted({about(pod).priority for pod in self.living})
        if len(priorities) > 1:
            yield f"its pods name different groupPriority: {_listed(priorities)}; the largest counts"


def _lives(pod: PodRecord) -> bool:
    return pod.phase not in FINISHED and not pod.leaving


def gang_among(key: GangKey, pods: Iterable[PodRecord], *, count_all: bool = False) -> PodGroup:
    """A gang, out of pods of which some have nothing to do with it."""
    named = sorted(pods, key=lambda pod: pod.name)
    members = tuple(pod for pod in named if gang_of(pod) == key)
    return PodGroup(key, members, count_all, tuple(pod for pod in named if gang_beside(pod) == key))


def about(pod: PodRecord) -> Membership:
    """What a pod says of its gang."""
    return pod.membership or _NOBODY


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))

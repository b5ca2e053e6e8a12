"""PodGroup: a gang's pods, by their state; and the index of all gangs, of which a pod event rebuilds one.

No I/O; times are Unix seconds.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from evaluator.core.cache.pods import PodCache
from evaluator.core.model.pod_record import Key, PodRecord
from evaluator.core.model.pod_spec_view import FINISHED
from evaluator.core.signals import PodChanged
from evaluator.features.gangs.core.membership import (
    Membership,
    PodShape,
    QoS,
    membership_of,
    shapes,
)
from plimsoll.text import counted

_NO_MEMBERSHIP = Membership()


class GangKey(NamedTuple):
    """Namespace and label `podGroup` of a gang; or, with `alone`, namespace and name of a gated pod without a gang."""

    namespace: str
    name: str
    alone: bool = False

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Rank(NamedTuple):
    """The queue order: smaller ranks go first."""

    priority: int
    """`groupPriority`, negated."""
    qos: QoS
    created: float
    key: GangKey


def gang_of(pod: PodRecord) -> GangKey | None:
    """Return the gang of a pod; for a pod without one that is gated, or was and has no node yet, a gang of its own.

    None for all other pods.
    """
    about = membership_of(pod)
    if about is None or about.native:
        return None
    if about.minimum:
        return GangKey(pod.namespace, about.group)
    waits = about.gated or (about.admitted is not None and not pod.node)
    return GangKey(pod.namespace, pod.name, alone=True) if waits else None


def gang_beside(pod: PodRecord) -> GangKey | None:
    """Return the gang that a pod counts for without waiting for it: it has the label `podGroup` and no minAvailable > 1."""
    about = membership_of(pod)
    if about is None or about.native or not about.beside:
        return None
    return GangKey(pod.namespace, about.beside)


@dataclass(frozen=True)
class PodGroup:
    """All pods of a gang, finished and terminating ones included, sorted by name.

    `beside`: pods that count for it without waiting for it. `count_all`: finished and terminating pods count for the quorum,
    as in the Coscheduling plugin.
    """

    key: GangKey
    pods: tuple[PodRecord, ...]
    count_all: bool = False
    beside: tuple[PodRecord, ...] = ()

    @cached_property
    def living(self) -> tuple[PodRecord, ...]:
        """Pods that are neither finished nor terminating."""
        return tuple(filter(_lives, self.pods))

    @cached_property
    def minimum(self) -> int:
        """The number of pods that must exist: the largest minAvailable of its pods; 1 for a pod alone."""
        return max((about(pod).minimum for pod in self.living), default=0) or 1

    @cached_property
    def existing(self) -> int:
        """The number of pods that count for the quorum."""
        if self.count_all:
            return len(self.pods) + len(self.beside)
        return len(self.counting)

    @cached_property
    def counting(self) -> tuple[PodRecord, ...]:
        """Its living pods, and the living pods beside it."""
        return (*self.living, *filter(_lives, self.beside))

    @property
    def complete(self) -> bool:
        """Whether it has its quorum."""
        return self.existing >= self.minimum

    def has_quorum(self, *, admitted: bool) -> bool:
        """Return whether enough pods exist. Succeeded pods of an admitted gang do not count as missing."""
        return not self.missing(admitted=admitted)

    def missing(self, *, admitted: bool) -> int:
        """Return how many more pods must exist for the quorum."""
        done = self.succeeded if admitted and not self.count_all else 0
        return max(0, self.minimum - self.existing - done)

    @cached_property
    def gated(self) -> tuple[PodRecord, ...]:
        """Living pods with our gate."""
        return tuple(pod for pod in self.living if about(pod).gated)

    @cached_property
    def releasable(self) -> tuple[PodRecord, ...]:
        """Living pods with our gate and no other."""
        return tuple(pod for pod in self.gated if not about(pod).foreign)

    @cached_property
    def demand(self) -> Mapping[PodShape, int]:
        """The releasable pods by shape."""
        return shapes(self.releasable)

    @cached_property
    def foreign(self) -> tuple[PodRecord, ...]:
        """Living pods with gates of others."""
        return tuple(pod for pod in self.living if about(pod).foreign)

    @cached_property
    def placed(self) -> tuple[PodRecord, ...]:
        """Living pods with a node."""
        return tuple(pod for pod in self.living if pod.node)

    @property
    def works(self) -> bool:
        """Whether at least minAvailable pods have nodes; further pods are optional."""
        return len(self.placed) >= self.minimum

    @cached_property
    def unplaced(self) -> tuple[PodRecord, ...]:
        """Living pods without gates and without a node."""
        return tuple(pod for pod in self.living if not pod.node and not about(pod).held)

    @cached_property
    def placing(self) -> tuple[PodRecord, ...]:
        """Unplaced pods whose gate was removed: kube-scheduler is finding nodes for them."""
        return tuple(pod for pod in self.unplaced if about(pod).admitted is not None)

    @cached_property
    def ungated_at(self) -> float | None:
        """When the last gate of these pods was removed; None if there are none."""
        return max(
            (at for pod in self.placing if (at := about(pod).admitted) is not None), default=None
        )

    @cached_property
    def admitted(self) -> frozenset[str]:
        """The uids of the owners of admitted pods, from the pods that exist; "" for living pods without an owner.

        A pod without an owner is not replaced, so it counts only while it lives.
        """
        with_time = [pod for pod in self.pods if about(pod).admitted is not None]
        owners = {uid for pod in with_time if (uid := about(pod).owner.uid)}
        alone = any(
            not about(pod).owner.uid for pod in self.living if about(pod).admitted is not None
        )
        return frozenset(owners | ({""} if alone else set()))

    @cached_property
    def succeeded(self) -> int:
        """The number of succeeded pods."""
        return sum(pod.phase == "Succeeded" for pod in (*self.pods, *self.beside))

    @cached_property
    def rank(self) -> Rank:
        """The highest priority and lowest QoS class of its living pods, and the oldest creation time."""
        members = [about(pod) for pod in self.living]
        return Rank(
            -max((member.priority for member in members), default=0),
            max((member.qos for member in members), default=QoS.BEST_EFFORT),
            self.created,
            self.key,
        )

    @cached_property
    def created(self) -> float:
        """The creation time of the oldest gated pod, or of the oldest living pod if none is gated; 0 if unknown.

        Running pods do not count: a gang that has run for weeks and gets one more pod has not waited for weeks.
        """
        waiting = self.gated or self.living
        return min((pod.created for pod in waiting if pod.created is not None), default=0.0)

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """Problems with its labels, each a sentence."""
        with_time = dict.fromkeys(text for pod in self.living for text in about(pod).problems)
        return (*with_time, *self._mismatches())

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
    """Return a gang from pods of which some may not belong to it."""
    named = sorted(pods, key=lambda pod: pod.name)
    members = tuple(pod for pod in named if gang_of(pod) == key)
    return PodGroup(key, members, count_all, tuple(pod for pod in named if gang_beside(pod) == key))


def about(pod: PodRecord) -> Membership:
    """Return a pod's membership; an empty one if it has none."""
    return membership_of(pod) or _NO_MEMBERSHIP


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


class GangIndex:
    """The gangs of a pod cache; complete once the cache has all pods. `count_all`: see PodGroup."""

    def __init__(self, inventory: PodCache, *, count_all: bool = False) -> None:
        self.version = 0
        """Increases with each change to a gang."""
        self.native: dict[Key, PodRecord] = {}
        """Gated pods in groups that Kubernetes itself schedules; they belong to no gang here."""
        self.held = 0
        """The number of pods with our gate."""
        self._count_all = count_all
        self._members = _PodsByGang(gang_of)
        self._beside = _PodsByGang(gang_beside)
        self._gangs: dict[GangKey, PodGroup] = {}
        self._stale: set[GangKey] = set()
        for pod in inventory.pods.objects.values():
            self.pod_changed(PodChanged(None, pod))

    @property
    def gangs(self) -> Collection[PodGroup]:
        """All gangs, in no order; unchanged gangs are the same objects as before."""
        return self.by_key.values()

    @property
    def by_key(self) -> Mapping[GangKey, PodGroup]:
        """All gangs by key."""
        for key in self._stale:
            pods, beside = self._members.pods_of(key), self._beside.pods_of(key)
            self._gangs[key] = PodGroup(key, pods, self._count_all, beside)
        self._stale.clear()
        return self._gangs

    def find(self, key: GangKey) -> PodGroup | None:
        """Return a gang, or None."""
        return self.by_key.get(key)

    def pod_changed(self, pod: PodChanged) -> None:
        """Ignore changes that do not matter to gangs, such as most status updates by kubelets."""
        before, after = pod.before, pod.after
        concerned = [pod for pod in (before, after) if pod is not None and membership_of(pod)]
        if not concerned or (
            before and after and _relevant_fields(before) == _relevant_fields(after)
        ):
            return
        self.version += 1
        self.held += _is_held(after) - _is_held(before)
        for pods in (self._members, self._beside):
            for key in pods.change(before, after):
                self._note(key)
        if before is not None:
            self.native.pop(before.key, None)
        if after is not None and _is_held_native(after):
            self.native[after.key] = after

    def _note(self, key: GangKey) -> None:
        if key in self._members:
            self._stale.add(key)
        else:  # at once: if by_key is never read, deleted gangs must not accumulate
            self._stale.discard(key)
            self._gangs.pop(key, None)


class _PodsByGang:
    """Pods grouped by the gang that `gang_of` returns; other pods are left out."""

    def __init__(self, gang_of: Callable[[PodRecord], GangKey | None]) -> None:
        self._gang_of = gang_of
        self._pods: dict[GangKey, dict[Key, PodRecord]] = {}

    def __contains__(self, key: GangKey) -> bool:
        return key in self._pods

    def pods_of(self, key: GangKey) -> tuple[PodRecord, ...]:
        """Return the pods of one gang, sorted by name."""
        return tuple(sorted(self._pods.get(key, {}).values(), key=lambda pod: pod.name))

    def change(self, before: PodRecord | None, after: PodRecord | None) -> set[GangKey]:
        """Replace a pod (None: absent); return the gangs that change with it."""
        changed = set()
        if before is not None and (key := self._gang_of(before)) is not None:
            changed.add(key)
            pods = self._pods[key]
            del pods[before.key]
            if not pods:
                del self._pods[key]
        if after is not None and (key := self._gang_of(after)) is not None:
            changed.add(key)
            self._pods.setdefault(key, {})[after.key] = after
        return changed


def _is_held(pod: PodRecord | None) -> bool:
    about = membership_of(pod) if pod is not None else None
    return about is not None and about.gated


def _is_held_native(pod: PodRecord) -> bool:
    about = membership_of(pod)
    return about is not None and about.gated and about.native


def _relevant_fields(pod: PodRecord) -> tuple[Any, ...]:
    """Return the fields of a pod that matter to its gang."""
    about = (pod.extra, pod.requests, pod.others, pod.created)
    return (pod.uid, pod.node, pod.phase, pod.leaving, *about)

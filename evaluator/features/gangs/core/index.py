"""Index of all gangs, updated with each pod event; only changed gangs are rebuilt."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from evaluator.core.cache.pods import PodCache
from evaluator.core.model.pod_record import Key, PodRecord
from evaluator.features.gangs.core.membership import membership_of
from evaluator.features.gangs.core.podgroup import GangKey, PodGroup, gang_beside, gang_of


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
        inventory.listeners.append(self._changed)
        for pod in inventory.pods.objects.values():
            self._changed(None, pod)

    @property
    def gangs(self) -> Collection[PodGroup]:
        """All gangs, in no order; unchanged gangs are the same objects as before."""
        return self.by_key.values()

    @property
    def by_key(self) -> Mapping[GangKey, PodGroup]:
        """All gangs by key."""
        for key in self._stale:
            pods, beside = self._members.of(key), self._beside.of(key)
            self._gangs[key] = PodGroup(key, pods, self._count_all, beside)
        self._stale.clear()
        return self._gangs

    def find(self, key: GangKey) -> PodGroup | None:
        """Return a gang, or None."""
        return self.by_key.get(key)

    def _changed(self, before: PodRecord | None, after: PodRecord | None) -> None:
        """Ignore changes that do not matter to gangs, such as most status updates by kubelets."""
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

    def of(self, key: GangKey) -> tuple[PodRecord, ...]:
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

"""All gangs as they stand, kept up as pods come, change and go; only those are put together anew that changed."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from evaluator.cache.pods import PodCache
from evaluator.gangs.core.podgroup import GangKey, PodGroup, gang_beside, gang_of
from evaluator.model.pod_record import Key, PodRecord


class GangIndex:
    """The gangs of an inventory. Once all pods were listed, they are all there. `count_all`: see Gang."""

    def __init__(self, inventory: PodCache, *, count_all: bool = False) -> None:
        self.version = 0
        """Goes up when a gang is another than before."""
        self.native: dict[Key, PodRecord] = {}
        """Pods that our gate holds though Kubernetes itself schedules them as ones of a group: they belong to no gang here."""
        self.held = 0
        """Pods that our gate holds."""
        self._count_all = count_all
        self._members = _Sorted(gang_of)
        self._beside = _Sorted(gang_beside)
        self._gangs: dict[GangKey, PodGroup] = {}
        self._stale: set[GangKey] = set()
        inventory.listeners.append(self._changed)
        for pod in inventory.pods.objects.values():
            self._changed(None, pod)

    @property
    def gangs(self) -> Collection[PodGroup]:
        """All of them, in no order; a gang that did not change is the same object as before."""
        return self.by_key.values()

    @property
    def by_key(self) -> Mapping[GangKey, PodGroup]:
        """The same, to look one up."""
        for key in self._stale:
            pods, beside = self._members.of(key), self._beside.of(key)
            self._gangs[key] = PodGroup(key, pods, self._count_all, beside)
        self._stale.clear()
        return self._gangs

    def find(self, key: GangKey) -> PodGroup | None:
        """One of them."""
        return self.by_key.get(key)

    def _changed(self, before: PodRecord | None, after: PodRecord | None) -> None:
        """Of a pod that runs, its kubelet has much to tell, and nothing that matters to its gang."""
        concerned = [pod for pod in (before, after) if pod is not None and pod.membership]
        if not concerned or (before and after and _told(before) == _told(after)):
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
        else:  # at once: where nobody asks for gangs, nothing is to be kept of those that are gone
            self._stale.discard(key)
            self._gangs.pop(key, None)


class _Sorted:
    """Pods by the gang that each has to do with."""

    def __init__(self, by: Callable[[PodRecord], GangKey | None]) -> None:
        self._by = by
        self._pods: dict[GangKey, dict[Key, PodRecord]] = {}

    def __contains__(self, key: GangKey) -> bool:
        return key in self._pods

    def of(self, key: GangKey) -> tuple[PodRecord, ...]:
        """Those of one gang, by name."""
        return tuple(sorted(self._pods.get(key, {}).values(), key=lambda pod: pod.name))

    def change(self, before: PodRecord | None, after: PodRecord | None) -> set[GangKey]:
        """A pod is another than before (None: there is none); the gangs that are, too."""
        changed = set()
        if before is not None and (key := self._by(before)) is not None:
            changed.add(key)
            pods = self._pods[key]
            del pods[before.key]
            if not pods:
                del self._pods[key]
        if after is not None and (key := self._by(after)) is not None:
            changed.add(key)
            self._pods.setdefault(key, {})[after.key] = after
        return changed


def _is_held(pod: PodRecord | None) -> bool:
    return pod is not None and pod.membership is not None and pod.membership.gated


def _is_held_native(pod: PodRecord) -> bool:
    return _is_held(pod) and pod.membership is not None and pod.membership.native


def _told(pod: PodRecord) -> tuple[Any, ...]:
    """What matters to a gang of one of its pods."""
    about = (pod.membership, pod.requests, pod.others, pod.created)
    return (pod.uid, pod.node, pod.phase, pod.leaving, *about)

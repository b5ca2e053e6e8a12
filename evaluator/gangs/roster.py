"""All gangs as they stand, kept up as pods come, change and go; only those are put together anew that changed."""

from collections.abc import Collection, Mapping
from typing import Any

from evaluator.gangs.group import Gang, GangKey, gang_of
from evaluator.inventory import Inventory, Key, Resident


class Roster:
    """The gangs of an inventory. Once all pods were listed, they are all there. `count_all`: see Gang."""

    def __init__(self, inventory: Inventory, *, count_all: bool = False) -> None:
        self.version = 0
        """Goes up when a gang is another than before."""
        self.native: dict[Key, Resident] = {}
        """Pods that our gate holds though Kubernetes itself schedules them as ones of a group: they belong to no gang here."""
        self._count_all = count_all
        self._members: dict[GangKey, dict[Key, Resident]] = {}
        self._gangs: dict[GangKey, Gang] = {}
        self._stale: set[GangKey] = set()
        inventory.listeners.append(self._changed)
        for pod in inventory.pods.objects.values():
            self._changed(None, pod)

    @property
    def gangs(self) -> Collection[Gang]:
        """All of them, in no order; a gang that did not change is the same object as before."""
        self._refresh()
        return self._gangs.values()

    @property
    def by_key(self) -> Mapping[GangKey, Gang]:
        """The same, to look one up."""
        self._refresh()
        return self._gangs

    def find(self, key: GangKey) -> Gang | None:
        """One of them."""
        return self.by_key.get(key)

    def _changed(self, before: Resident | None, after: Resident | None) -> None:
        """Of a pod that runs, its kubelet has much to tell, and nothing that matters to its gang."""
        was, now = _placed_in(before), _placed_in(after)
        if was is None and now is None and not _is_native(before) and not _is_native(after):
            return
        if before is not None and after is not None and _told(before) == _told(after):
            return
        self.version += 1
        if before is not None:
            self.native.pop(before.key, None)
            self._leave(was, before.key)
        if after is not None:
            if _is_native(after):
                self.native[after.key] = after
            self._enter(now, after)

    def _enter(self, key: GangKey | None, pod: Resident) -> None:
        if key is not None:
            self._members.setdefault(key, {})[pod.key] = pod
            self._stale.add(key)

    def _leave(self, key: GangKey | None, pod: Key) -> None:
        if key is not None:
            members = self._members[key]
            del members[pod]
            if not members:
                del self._members[key]
            self._stale.add(key)

    def _refresh(self) -> None:
        for key in self._stale:
            if (members := self._members.get(key)) is None:
                self._gangs.pop(key, None)
            else:
                pods = tuple(sorted(members.values(), key=lambda pod: pod.name))
                self._gangs[key] = Gang(key, pods, self._count_all)
        self._stale.clear()


def _placed_in(pod: Resident | None) -> GangKey | None:
    return gang_of(pod) if pod is not None else None


def _is_native(pod: Resident | None) -> bool:
    about = pod.membership if pod is not None else None
    return about is not None and about.native and about.gated


def _told(pod: Resident) -> tuple[Any, ...]:
    """What matters to a gang of one of its pods."""
    about = (pod.membership, pod.requests, pod.others, pod.created)
    return (pod.uid, pod.node, pod.phase, pod.leaving, *about)

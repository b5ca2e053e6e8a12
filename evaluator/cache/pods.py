"""All pods of the cluster, and what they hold of each node. Fed by a watcher, and only where there are scorers or gangs.

A large cluster has 150,000 pods: of each is kept a record of a few hundred bytes, and sums are kept up as pods come and go,
in whole numbers, so that they are what adding up from scratch would give.
"""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from evaluator.cache.cluster import Collection
from evaluator.model.pod_record import Key, PodRecord
from evaluator.model.resources import (
    NOTHING,
    ExtendedResources,
    ResourceVector,
    minus,
    others_minus,
    others_plus,
    plus,
)
from evaluator.model.usage_metrics import WINDOW

Listener = Callable[["PodRecord | None", "PodRecord | None"], None]


@dataclass(slots=True)
class NodeUsage:
    """What the pods of one node hold together."""

    requested: ResourceVector = NOTHING
    recently_bound: ResourceVector = NOTHING
    """Of those that are younger than the window."""
    others: ExtendedResources = ()
    pods: int = 0

    def put(self, resident: PodRecord) -> None:
        """One more."""
        self.requested = plus(self.requested, resident.requests)
        self.others = others_plus(self.others, resident.others)
        self.pods += 1

    def take(self, resident: PodRecord) -> None:
        """One less."""
        self.requested = minus(self.requested, resident.requests)
        self.others = others_minus(self.others, resident.others)
        self.pods -= 1


@dataclass(slots=True)
class _RecentlyBound:
    """Pods that were bound less than a window ago: who, and until when they are."""

    until: dict[Key, float] = field(default_factory=dict)
    queue: list[tuple[float, Key]] = field(default_factory=list)
    """Soonest first; what `until` does not say any more is passed over."""


class PodCache:
    """The sink of a watcher of all pods. `clock` is monotonic, `wall` tells Unix time: pods say by it when they were bound."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
        window: float = WINDOW,
    ) -> None:
        self.pods: Collection[Key, PodRecord] = Collection(
            lambda resident: resident.key, changed=self._changed, listed=self._listed
        )
        self.listeners: list[Listener] = []
        """Told what a pod was and what it is (None: nothing); on the loop's thread, and must only take note."""
        self.touched: list[Callable[[str], None]] = []
        """Told the name of a node whose sums are other than before."""
        self.listed: list[Callable[[], None]] = []
        """Told when all pods were listed for the first time."""
        self._clock, self._wall, self._window = clock, wall, window
        self._loads: dict[str, NodeUsage] = {}
        self._young = _RecentlyBound()

    @property
    def synced(self) -> bool:
        """Whether all pods are known. Until then the sums are too small, and must not be used."""
        return self.pods.synced

    @property
    def loads(self) -> Mapping[str, NodeUsage]:
        """By node; a node without pods is not in it. Young pods are those of the last `age()`."""
        return self._loads

    def age(self) -> None:
        """Let pods grow up that were bound a window ago by now."""
        now, young = self._clock(), self._young
        while young.queue and young.queue[0][0] <= now:
            until, key = heapq.heappop(young.queue)
            if young.until.get(key) == until:
                self._grown(self.pods.objects[key])

    def _listed(self) -> None:
        for listener in self.listed:
            listener()

    def _changed(self, key: Key, before: PodRecord | None, after: PodRecord | None) -> None:
        if not _same_place(before, after):
            if before is not None and before.holds:
                self._leave(key, before)
            if after is not None and after.holds:
                self._enter(key, before, after)
        for listener in self.listeners:
            listener(before, after)

    def _touch(self, node: str) -> None:
        for listener in self.touched:
            listener(node)

    def _enter(self, key: Key, before: PodRecord | None, resident: PodRecord) -> None:
        self._loads.setdefault(resident.node, NodeUsage()).put(resident)
        self._touch(resident.node)
        now = self._clock()
        until = now - self._age_of(before, resident) + self._window
        if until > now:
            self._young.until[key] = until
            heapq.heappush(self._young.queue, (until, key))
            load = self._loads[resident.node]
            load.recently_bound = plus(load.recently_bound, resident.requests)

    def _age_of(self, before: PodRecord | None, resident: PodRecord) -> float:
        """Seconds since it was bound: just now, if it was seen without a node, or nobody says."""
        seen = before is not None and before.uid == resident.uid and not before.node
        if seen or resident.bound is None:
            return 0.0
        return max(0.0, self._wall() - resident.bound)

    def _leave(self, key: Key, resident: PodRecord) -> None:
        if key in self._young.until:
            self._grown(resident)
        load = self._loads[resident.node]
        load.take(resident)
        if not load.pods:
            del self._loads[resident.node]
        self._touch(resident.node)

    def _grown(self, resident: PodRecord) -> None:
        del self._young.until[resident.key]
        load = self._loads[resident.node]
        load.recently_bound = minus(load.recently_bound, resident.requests)
        self._touch(resident.node)


def _same_place(before: PodRecord | None, after: PodRecord | None) -> bool:
    """Whether what a pod holds, and where, is as before: most news of a pod is of other matters."""
    if before is None or after is None:
        return before is after
    if not (before.holds or after.holds):
        return True
    held, holds = (_held(before), _held(after))
    return held == holds


def _held(resident: PodRecord) -> tuple[str, str, bool, ResourceVector, ExtendedResources]:
    return resident.uid, resident.node, resident.holds, resident.requests, resident.others

"""Caches all pods and the resources they use per node. Used only if a feature requires it.

A large cluster has 150,000 pods: each is a record of a few hundred bytes. Sums per node are updated as pods change, in
integers, so they equal a full recount.
"""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from evaluator.core.cache.cluster import Collection
from evaluator.core.model.pod_record import Key, PodRecord
from evaluator.core.model.resources import (
    NOTHING,
    USAGE_WINDOW,
    ExtendedResources,
    ResourceVector,
    minus,
    others_minus,
    others_plus,
    plus,
)
from evaluator.core.signals import NodeUsageChanged, PodChanged, Signals
from plimsoll import rfc3339


@dataclass(slots=True)
class NodeUsage:
    """Resources used by the pods of one node."""

    requested: ResourceVector = NOTHING
    recently_bound: ResourceVector = NOTHING
    """Requests of pods bound within the window."""
    others: ExtendedResources = ()
    pods: int = 0

    def add(self, pod: PodRecord) -> None:
        """Add a pod."""
        self.requested = plus(self.requested, pod.requests)
        self.others = others_plus(self.others, pod.others)
        self.pods += 1

    def remove(self, pod: PodRecord) -> None:
        """Remove a pod."""
        self.requested = minus(self.requested, pod.requests)
        self.others = others_minus(self.others, pod.others)
        self.pods -= 1


@dataclass(slots=True)
class _RecentlyBound:
    """Pods bound within the last window, and when each leaves it."""

    until: dict[Key, float] = field(default_factory=dict)
    queue: list[tuple[float, Key]] = field(default_factory=list)
    """Soonest first; entries that differ from `until` are skipped."""


class PodCache:
    """The sink of the reflector of all pods; publishes what changes in them.

    `clock` is monotonic; `wall` returns Unix time, as in the pods' timestamps.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
        window: float = USAGE_WINDOW,
        signals: Signals | None = None,
    ) -> None:
        self.signals = signals or Signals()
        self._publish = self.signals.publish
        self.pods: Collection[Key, PodRecord] = Collection(
            lambda pod: pod.key, changed=self._changed, guard=self.signals.guard("pod cache")
        )
        self._clock, self._wall, self._window = clock, wall, window
        self._usage: dict[str, NodeUsage] = {}
        self._recent = _RecentlyBound()

    @property
    def synced(self) -> bool:
        """Whether all pods are listed. Until then the sums are incomplete and must not be used."""
        return self.pods.synced

    @property
    def usage(self) -> Mapping[str, NodeUsage]:
        """Usage by node; nodes without pods are absent. `age()` updates `recently_bound`."""
        return self._usage

    def age(self) -> None:
        """Remove the pods from `recently_bound` that were bound a window ago or earlier."""
        now, recent = self._clock(), self._recent
        while recent.queue and recent.queue[0][0] <= now:
            until, key = heapq.heappop(recent.queue)
            if recent.until.get(key) == until:
                self._expire(self.pods.objects[key])

    def _changed(self, key: Key, before: PodRecord | None, after: PodRecord | None) -> None:
        if not _same_usage(before, after):
            if before is not None and before.holds:
                self._remove(key, before)
            if after is not None and after.holds:
                self._add(key, before, after)
        self._publish(PodChanged(before, after))

    def _touch(self, node: str) -> None:
        self._publish(NodeUsageChanged(node))

    def _add(self, key: Key, before: PodRecord | None, pod: PodRecord) -> None:
        self._usage.setdefault(pod.node, NodeUsage()).add(pod)
        self._touch(pod.node)
        now = self._clock()
        until = now - self._seconds_since_bound(before, pod) + self._window
        if until > now:
            self._recent.until[key] = until
            heapq.heappush(self._recent.queue, (until, key))
            usage = self._usage[pod.node]
            usage.recently_bound = plus(usage.recently_bound, pod.requests)

    def _seconds_since_bound(self, before: PodRecord | None, pod: PodRecord) -> float:
        """Return the seconds since the pod was bound; 0 if it was observed without a node or the time is unknown."""
        observed = before is not None and before.uid == pod.uid and not before.node
        wall = self._wall()
        bound = rfc3339.bounded(pod.bound, wall)
        return 0.0 if observed or bound is None else wall - bound

    def _remove(self, key: Key, pod: PodRecord) -> None:
        if key in self._recent.until:
            self._expire(pod)
        usage = self._usage[pod.node]
        usage.remove(pod)
        if not usage.pods:
            del self._usage[pod.node]
        self._touch(pod.node)

    def _expire(self, pod: PodRecord) -> None:
        del self._recent.until[pod.key]
        usage = self._usage[pod.node]
        usage.recently_bound = minus(usage.recently_bound, pod.requests)
        self._touch(pod.node)


def _same_usage(before: PodRecord | None, after: PodRecord | None) -> bool:
    """Return whether a pod's node and requests are unchanged: most events change other fields."""
    if before is None or after is None:
        return before is after
    if not (before.holds or after.holds):
        return True
    return _usage_key(before) == _usage_key(after)


def _usage_key(pod: PodRecord) -> tuple[str, str, bool, ResourceVector, ExtendedResources]:
    return pod.uid, pod.node, pod.holds, pod.requests, pod.others

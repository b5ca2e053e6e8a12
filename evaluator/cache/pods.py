"""All pods of the cluster, and what they hold of each node. Fed by a watcher, and only where there are scorers or gangs.

A large cluster has 150,000 pods: of each is kept a record of a few hundred bytes, and sums are kept up as pods come and go,
in whole numbers, so that they are what adding up from scratch would give.
"""

import heapq
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from sys import intern

import msgspec

from evaluator.cache.cluster import Collection
from evaluator.model import gang_labels
from evaluator.model import pods as workload
from evaluator.model.gang_membership import Membership
from evaluator.model.pod_demand import PodView
from evaluator.model.pods import FINISHED, ContainerStatus, Workload
from evaluator.model.requests import amounts, effective, others
from evaluator.model.resources import (
    NOTHING,
    Others,
    Vector,
    minus,
    others_minus,
    others_plus,
    plus,
)
from evaluator.scoring.inputs import WINDOW
from plimsoll.rfc3339 import unix

Key = tuple[str, str]
"""Namespace and name."""

Listener = Callable[["Resident | None", "Resident | None"], None]

_CRASHING = "CrashLoopBackOff"


class Resident(msgspec.Struct, frozen=True, gc=False):
    """One pod, as far as anybody asks. Times are Unix seconds; None: not known, or not yet."""

    namespace: str
    name: str
    uid: str
    kind: str
    node: str
    """Empty while it has none."""
    phase: str
    requests: Vector
    bound: float | None
    """Since when it has had its node."""
    created: float | None
    leaving: bool
    """Whether it was told to go."""
    ready: bool
    """Whether all its containers are, as far as its kubelet told of them."""
    restarts: int
    """Of all containers together."""
    crashing: bool
    """Whether a container is being kept from starting anew for having crashed again and again, or ended in failure."""
    crashed: float | None
    """When a container last ended in failure."""
    problems: tuple[str, ...] = ()
    """What could not be read of what it asks for."""
    others: Others = ()
    """What it asks for of resources that scorers do not know."""
    membership: Membership | None = None
    """What it says of its gang; None for a pod that names none and that our gate does not hold."""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def holds(self) -> bool:
        """Whether it takes room on a node: bound, and not finished. One on its way out does until it is gone."""
        return bool(self.node) and self.phase not in FINISHED

    @property
    def view(self) -> PodView:
        """What scorers see of it."""
        name = f"{self.namespace}/{self.name}"
        return PodView(name, self.uid, self.kind, amounts(self.requests))


@dataclass(slots=True)
class Load:
    """What the pods of one node hold together."""

    requested: Vector = NOTHING
    young: Vector = NOTHING
    """Of those that are younger than the window."""
    others: Others = ()
    pods: int = 0

    def put(self, resident: Resident) -> None:
        """One more."""
        self.requested = plus(self.requested, resident.requests)
        self.others = others_plus(self.others, resident.others)
        self.pods += 1

    def take(self, resident: Resident) -> None:
        """One less."""
        self.requested = minus(self.requested, resident.requests)
        self.others = others_minus(self.others, resident.others)
        self.pods -= 1


@dataclass(slots=True)
class _Young:
    """Pods that were bound less than a window ago: who, and until when they are."""

    until: dict[Key, float] = field(default_factory=dict)
    queue: list[tuple[float, Key]] = field(default_factory=list)
    """Soonest first; what `until` does not say any more is passed over."""


class Inventory:
    """The sink of a watcher of all pods. `clock` is monotonic, `wall` tells Unix time: pods say by it when they were bound."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
        window: float = WINDOW,
    ) -> None:
        self.pods: Collection[Key, Resident] = Collection(
            lambda resident: resident.key, changed=self._changed, listed=self._listed
        )
        self.listeners: list[Listener] = []
        """Told what a pod was and what it is (None: nothing); on the loop's thread, and must only take note."""
        self.touched: list[Callable[[str], None]] = []
        """Told the name of a node whose sums are other than before."""
        self.listed: list[Callable[[], None]] = []
        """Told when all pods were listed for the first time."""
        self._clock, self._wall, self._window = clock, wall, window
        self._loads: dict[str, Load] = {}
        self._young = _Young()

    @property
    def synced(self) -> bool:
        """Whether all pods are known. Until then the sums are too small, and must not be used."""
        return self.pods.synced

    @property
    def loads(self) -> Mapping[str, Load]:
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

    def _changed(self, key: Key, before: Resident | None, after: Resident | None) -> None:
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

    def _enter(self, key: Key, before: Resident | None, resident: Resident) -> None:
        self._loads.setdefault(resident.node, Load()).put(resident)
        self._touch(resident.node)
        now = self._clock()
        until = now - self._age_of(before, resident) + self._window
        if until > now:
            self._young.until[key] = until
            heapq.heappush(self._young.queue, (until, key))
            load = self._loads[resident.node]
            load.young = plus(load.young, resident.requests)

    def _age_of(self, before: Resident | None, resident: Resident) -> float:
        """Seconds since it was bound: just now, if it was seen without a node, or nobody says."""
        seen = before is not None and before.uid == resident.uid and not before.node
        if seen or resident.bound is None:
            return 0.0
        return max(0.0, self._wall() - resident.bound)

    def _leave(self, key: Key, resident: Resident) -> None:
        if key in self._young.until:
            self._grown(resident)
        load = self._loads[resident.node]
        load.take(resident)
        if not load.pods:
            del self._loads[resident.node]
        self._touch(resident.node)

    def _grown(self, resident: Resident) -> None:
        del self._young.until[resident.key]
        load = self._loads[resident.node]
        load.young = minus(load.young, resident.requests)
        self._touch(resident.node)


def decode(raw: msgspec.Raw, ignored: Set[str] = frozenset()) -> Resident:
    """A Resident out of a Pod's JSON; `ignored`: see `evaluator.model.requests.others`.

    Raises what `evaluator.decoding.UNREADABLE` names.
    """
    return resident(workload.decode(raw), ignored)


def resident(pod: Workload, ignored: Set[str] = frozenset()) -> Resident:
    """What is kept of a pod."""
    meta, status = pod.metadata, pod.status
    asked, (more, unread) = effective(pod), others(pod, ignored)
    told, seen = status.container_statuses or (), list(pod.containers_seen)
    return Resident(
        namespace=intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        kind=intern(pod.kind) if pod.kind != meta.name else meta.name,
        node=intern(pod.spec.node_name),
        phase=intern(status.phase),
        requests=asked.requests,
        bound=unix(pod.bound_at) if pod.spec.node_name else None,
        created=unix(meta.creation_timestamp),
        leaving=meta.deletion_timestamp is not None,
        ready=bool(told) and all(container.ready for container in told),
        restarts=sum(container.restart_count for container in seen),
        crashing=any(map(_is_crashing, seen)),
        crashed=max((at for container in seen if (at := _crashed(container))), default=None),
        problems=asked.problems + unread,
        others=more,
        membership=gang_labels.membership(pod),
    )


def _same_place(before: Resident | None, after: Resident | None) -> bool:
    """Whether what a pod holds, and where, is as before: most news of a pod is of other matters."""
    if before is None or after is None:
        return before is after
    if not (before.holds or after.holds):
        return True
    held, holds = (_held(before), _held(after))
    return held == holds


def _held(resident: Resident) -> tuple[str, str, bool, Vector, Others]:
    return resident.uid, resident.node, resident.holds, resident.requests, resident.others


def _is_crashing(container: ContainerStatus) -> bool:
    if (state := container.state) is None:
        return False
    if state.terminated is not None:
        return state.terminated.exit_code != 0
    return state.waiting is not None and state.waiting.reason == _CRASHING


def _crashed(container: ContainerStatus) -> float | None:
    for state in (container.state, container.last_state):
        if state is not None and state.terminated is not None and state.terminated.exit_code:
            return unix(state.terminated.finished_at)
    return None

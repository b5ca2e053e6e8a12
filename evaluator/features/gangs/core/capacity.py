"""Tracks the free capacity of nodes incrementally from changes of pods and nodes."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial

import numpy as np

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.pods import NodeUsage, PodCache
from evaluator.core.model.node_index import Floats, NodeIndex, Reindex, fixed
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.model.pod_spec_view import FINISHED
from evaluator.core.model.resources import RESOURCES, ExtendedResources
from evaluator.core.policy.decide import Decisions
from evaluator.features.gangs.core.eligibility import Eligibility
from evaluator.features.gangs.core.membership import PlacementConstraints, membership_of
from evaluator.features.gangs.core.packing import Capacity
from evaluator.features.gangs.core.podgroup import gang_of

_NO_ROOM = (np.nan,) * len(RESOURCES)
_NO_USAGE = NodeUsage()


class CapacityTracker:
    """Provides the Capacity for a decision on gangs. `decisions` returns the latest policy decisions.

    `inventory` must contain all pods. Extended resources count only if a waiting pod requests them and a node has them.
    """

    def __init__(
        self, cluster: ClusterCache, inventory: PodCache, decisions: Callable[[], Decisions]
    ) -> None:
        self._cluster = cluster
        self._inventory = inventory
        self._candidates = Eligibility(cluster, decisions)
        self._requested: Counter[str] = Counter()
        self._offered = _Offered()
        self._touched = set(cluster.nodes.objects)
        self._capacity = self._blank(NodeIndex(), RESOURCES)
        cluster.listeners.figures.append(self._touched.add)
        inventory.touched.append(self._touched.add)
        inventory.listeners.append(self._changed)
        for pod in inventory.pods.objects.values():
            self._changed(None, pod)

    def unsynced(self) -> Sequence[str]:
        """Return the caches that are not synced yet: without them, nodes would seem to have more free capacity."""
        kinds = {"nodes": self._cluster.nodes.synced, "all pods": self._inventory.synced}
        return [kind for kind, listed in kinds.items() if not listed]

    def catching_up(self) -> Iterator[None]:
        """Do most of the pending work, in steps that yield to the event loop; `capacity()` does the rest."""
        return self._candidates.catching_up()

    def capacity(self) -> Capacity:
        """Return the current capacity; the same object while amounts do not change. `allowed` always uses the latest policies."""
        for _ in self.catching_up():
            pass
        for name in self._touched:
            node = self._cluster.nodes.objects.get(name)
            self._offered.change(name, node.status.others if node is not None else ())
        nodes, others = self._cluster.names, self._offered.names & self._requested.keys()
        resources = (*RESOURCES, *sorted(others))
        if resources != self._capacity.resources:
            self._capacity = self._blank(nodes, resources)
            self._touched.update(nodes)
        elif nodes is not self._capacity.nodes:
            self._touched.update(
                name for name in nodes if name not in self._capacity.nodes.position
            )
            self._capacity = self._moved(nodes)
        if self._touched:
            self._count([name for name in self._touched if name in nodes.position])
            self._touched.clear()
        return self._capacity

    def _changed(self, before: PodRecord | None, after: PodRecord | None) -> None:
        waited, waits = _waiting(before), _waiting(after)
        if waited is None and waits is None:
            return
        self._candidates.change(_where(waited), _where(waits))
        if waits is not None:
            self._requested.update(name for name, _ in waits.others)
        if waited is not None:
            self._requested.subtract(name for name, _ in waited.others)
            self._requested = +self._requested  # drops resources with count 0

    def _blank(self, nodes: NodeIndex, resources: tuple[str, ...]) -> Capacity:
        nothing = fixed(np.full((len(resources), len(nodes)), np.nan))
        return self._made(nodes, resources, nothing, nothing)

    def _moved(self, nodes: NodeIndex) -> Capacity:
        """Return the capacity for another set of nodes; new nodes are unknown."""
        before, reindex = self._capacity, Reindex(self._capacity.nodes, nodes)
        free, whole = (
            fixed(np.array([reindex.values(row) for row in table]))
            for table in (before.free, before.whole)
        )
        return self._made(nodes, before.resources, free, whole)

    def _count(self, names: Sequence[str]) -> None:
        """Update the amounts of these nodes."""
        if not names:
            return
        capacity, usage = self._capacity, self._inventory.usage
        others = capacity.resources[len(RESOURCES) :]
        whole = self._table(self._has(name, others) for name in names)
        held = self._table(_held(usage.get(name, _NO_USAGE), others) for name in names)
        positions = capacity.nodes.find(names)
        free_now, whole_now = capacity.free.copy(), capacity.whole.copy()
        whole_now[:, positions] = whole
        free_now[:, positions] = whole - held
        self._capacity = self._made(
            capacity.nodes, capacity.resources, fixed(free_now), fixed(whole_now)
        )

    def _has(self, name: str, others: Sequence[str]) -> tuple[float, ...]:
        status = self._cluster.nodes.objects[name].status
        if status.resource_vector is None:
            return (*_NO_ROOM, *(np.nan for _ in others))
        if not others:
            return status.resource_vector
        more = dict(status.others)
        return (*status.resource_vector, *(more.get(other, 0) for other in others))

    @staticmethod
    def _table(rows: Iterable[Sequence[float]]) -> Floats:
        """Return an array as (resources, nodes)."""
        return np.array(list(rows), dtype=np.float64).T

    def _made(
        self, nodes: NodeIndex, resources: tuple[str, ...], free: Floats, whole: Floats
    ) -> Capacity:
        return Capacity(nodes, resources, free, whole, partial(self._candidates.allowed, nodes))


class _Offered:
    """The extended resources of nodes."""

    def __init__(self) -> None:
        self._by_node: dict[str, ExtendedResources] = {}
        self._nodes: Counter[str] = Counter()

    @property
    def names(self) -> Set[str]:
        """The names over all nodes."""
        return self._nodes.keys()

    def change(self, node: str, others: ExtendedResources) -> None:
        """Set the extended resources of a node."""
        before = self._by_node.get(node, ())
        if before is others or before == others:
            return
        self._nodes.update(name for name, _ in others)
        self._nodes.subtract(name for name, _ in before)
        self._nodes = +self._nodes
        self._by_node[node] = others
        if not others:
            del self._by_node[node]


def _waiting(pod: PodRecord | None) -> PodRecord | None:
    """Return the pod if it is in a gang or gated, and has no node; else None."""
    if pod is None or membership_of(pod) is None or pod.node or pod.phase in FINISHED:
        return None
    return pod if gang_of(pod) is not None else None


def _where(pod: PodRecord | None) -> PlacementConstraints | None:
    about = membership_of(pod) if pod is not None else None
    return about.where if about is not None else None


def _held(load: NodeUsage, others: Sequence[str]) -> tuple[int, ...]:
    if not others:
        return load.requested
    more = dict(load.others)
    return (*load.requested, *(more.get(other, 0) for other in others))

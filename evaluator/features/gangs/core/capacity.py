"""Tracks the free capacity of nodes incrementally from changes of pods and nodes, and which nodes are eligible for waiting pods.

Masks of eligible nodes, by constraints and policy, are cached: one decision needs them for hundreds of gangs, most with equal
constraints, and nodes and policies rarely change.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.pods import NodeUsage, PodCache
from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.model.arrays import Floats
from evaluator.core.model.feasibility import NodesForPod, is_feasible
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Mask, NodeIndex, Reindex, fixed
from evaluator.core.model.pod import Affinity, Pod, PodMeta, PodSpec, Toleration
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.model.pod_spec_view import FINISHED
from evaluator.core.model.resources import RESOURCES, ExtendedResources
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.violations import ViolationReasons
from evaluator.core.signals import PodChanged
from evaluator.features.gangs.core.membership import PlacementConstraints, membership_of
from evaluator.features.gangs.core.packing import Capacity
from evaluator.features.gangs.core.podgroup import gang_of

K = TypeVar("K")

_Asked = tuple[dict[str, str] | None, Affinity | None, list[Toleration] | None]

_decode = msgspec.json.Decoder(_Asked).decode
_NO_ROOM = (np.nan,) * len(RESOURCES)
_NO_USAGE = NodeUsage()


class _CachedMask(NamedTuple):
    """A mask and the objects it was computed from; valid while these are the same objects."""

    basis: tuple[object, ...]
    mask: Mask

    def rests_on(self, basis: tuple[object, ...]) -> bool:
        return all(a is b for a, b in zip(self.basis, basis, strict=True))


class _Kind:
    """Pods with equal constraints: a representative, its feasible nodes, and their mask as of a version."""

    def __init__(self, pod: Pod, feasible: NodesForPod) -> None:
        self.pod = pod
        self.feasible = feasible
        self.version = -1
        self._cached: tuple[NodeIndex, Mask] | None = None

    def mask(self, nodes: NodeIndex, *, all_there: bool) -> Mask:
        """Return the mask of feasible nodes. `all_there`: whether `nodes` are all nodes of the cluster."""
        if (
            self._cached is None
            or self._cached[0] is not nodes
            or self.version != self.feasible.version
        ):
            self.version = self.feasible.version
            everywhere = all_there and len(self.feasible) == len(nodes)
            self._cached = nodes, nodes.all if everywhere else _mask(self.feasible, nodes)
        return self._cached[1]


class Eligibility:
    """Caches eligible nodes for the constraints of waiting pods, which are set with `change()`.

    `decisions` returns the latest policy decisions.
    """

    def __init__(self, cluster: ClusterCache, decisions: Callable[[], Decisions]) -> None:
        self._cluster = cluster
        self._decisions = decisions
        self._pods: Counter[PlacementConstraints] = Counter()
        self._kinds: dict[PlacementConstraints, _Kind] = {}
        self._accepted: dict[PolicyKey, _CachedMask] = {}
        self._both: dict[tuple[PlacementConstraints, PolicyKey], _CachedMask] = {}

    def change(
        self, before: PlacementConstraints | None, after: PlacementConstraints | None
    ) -> None:
        """Replace the constraints of a waiting pod; None if it does not wait."""
        if after is not None:
            self._pods[after] += 1
            if after not in self._kinds:
                pod = _representative(after)
                self._cluster.feasible_nodes.change_pod(None, pod)
                self._kinds[after] = _Kind(pod, self._cluster.feasible_nodes.for_pod(pod))
        if before is not None:
            self._pods[before] -= 1
            if self._pods[before] <= 0:
                self._forget(before)

    def catching_up(self) -> Iterator[None]:
        """Process changed nodes, in steps that yield to the event loop."""
        return self._cluster.feasible_nodes.catching_up()

    def allowed(
        self, nodes: NodeIndex, where: PlacementConstraints, policy: PolicyKey | None
    ) -> Mask:
        """Return the eligible nodes as a read-only mask; current once `catching_up()` is exhausted."""
        kind = self._kinds.get(where)
        if kind is None:
            feasible = self._look(nodes, where)
        else:
            feasible = kind.mask(nodes, all_there=nodes is self._cluster.names)
        decision = self._decisions().enforced.get(policy) if policy is not None else None
        if policy is None or decision is None:  # the extender does the same
            return feasible
        allowed_by_policy = self._accepted_by(policy, decision, nodes)
        return _kept(
            self._both,
            (where, policy),
            (feasible, allowed_by_policy),
            lambda: fixed(feasible & allowed_by_policy),
        )

    def _look(self, nodes: NodeIndex, where: PlacementConstraints) -> Mask:
        pod, known = _representative(where), self._cluster.nodes.objects
        flags = ((node := known.get(name)) is not None and is_feasible(node, pod) for name in nodes)
        return fixed(np.fromiter(flags, bool, len(nodes)))

    def _accepted_by(self, policy: PolicyKey, decision: Decision, nodes: NodeIndex) -> Mask:
        basis = (nodes, decision.dontschedule, decision.unreported)
        return _kept(self._accepted, policy, basis, lambda: _accepted_nodes(decision, nodes))

    def _forget(self, where: PlacementConstraints) -> None:
        del self._pods[where]
        self._cluster.feasible_nodes.change_pod(self._kinds.pop(where).pod, None)
        self._both = {key: mask for key, mask in self._both.items() if key[0] != where}
        if not self._kinds:
            self._accepted.clear()


def _kept(
    known: dict[K, _CachedMask], key: K, basis: tuple[object, ...], make: Callable[[], Mask]
) -> Mask:
    """Return the cached mask, recomputed if its basis has changed."""
    cached = known.get(key)
    if cached is None or not cached.rests_on(basis):
        cached = known[key] = _CachedMask(basis, make())
    return cached.mask


def _accepted_nodes(decision: Decision, nodes: NodeIndex) -> Mask:
    """Return the nodes that a policy does not reject and whose readings are not pending."""
    refused, unreported = decision.dontschedule, decision.unreported
    if isinstance(refused, ViolationReasons) and refused.nodes.nodes is nodes:
        mask = ~refused.nodes.mask
    else:
        mask = ~_mask(refused, nodes)
    return fixed(mask & ~_mask(unreported, nodes) if unreported else mask)


def _mask(names: Collection[str], nodes: NodeIndex) -> Mask:
    positions = nodes.find(list(names))
    mask = np.zeros(len(nodes), dtype=bool)
    mask[positions[positions >= 0]] = True
    return fixed(mask)


def _representative(where: PlacementConstraints) -> Pod:
    """Return a representative pod with these constraints."""
    selector, affinity, tolerations = _decode(where.constraints or b"[null,null,null]")
    spec = PodSpec(node_selector=selector, affinity=affinity, tolerations=tolerations)
    return Pod(PodMeta(), spec)


class CapacityTracker:
    """Provides the Capacity for a decision on gangs. `decisions` returns the latest policy decisions.

    `inventory` must contain all pods. Extended resources count only if a waiting pod requests them and a node has them.
    """

    def __init__(
        self,
        cluster: ClusterCache,
        inventory: PodCache,
        decisions: Callable[[], Decisions],
        guard: Guard = UNGUARDED,
    ) -> None:
        """`guard` takes what one node raises: its amounts are then unknown, so that it takes no gang."""
        self._guard = guard
        self._cluster = cluster
        self._inventory = inventory
        self._candidates = Eligibility(cluster, decisions)
        self._requested: Counter[str] = Counter()
        self._offered = _Offered()
        self._touched = set(cluster.nodes.objects)
        self._capacity = self._blank(NodeIndex(), RESOURCES)
        for pod in inventory.pods.objects.values():
            self.pod_changed(PodChanged(None, pod))

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
            self._guard.run(name, partial(self._offer, name), None)
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

    def _offer(self, name: str) -> None:
        """Take over the extended resources of a node."""
        node = self._cluster.nodes.objects.get(name)
        self._offered.change(name, node.status.others if node is not None else ())

    def node_changed(self, node: str) -> None:
        """Count a node again: its allocatable resources or its pods changed."""
        self._touched.add(node)

    def pod_changed(self, pod: PodChanged) -> None:
        """Take over where a waiting pod may go, and what it requests."""
        waited, waits = _waiting(pod.before), _waiting(pod.after)
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
        nothing: Sequence[float] = (*_NO_ROOM, *(np.nan for _ in others))

        def row(name: str) -> tuple[Sequence[float], Sequence[float]]:
            return self._has(name, others), _held(usage.get(name, _NO_USAGE), others)

        rows = [self._guard.run(name, partial(row, name), (nothing, nothing)) for name in names]
        whole, held = self._table(row for row, _ in rows), self._table(row for _, row in rows)
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

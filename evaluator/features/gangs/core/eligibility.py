"""Masks of the nodes that are eligible for waiting pods, by their constraints and their policy.

Masks are cached: one decision needs them for hundreds of gangs, most with equal constraints, and nodes and policies rarely
change.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.feasible_nodes import NodesForPod
from evaluator.core.model.feasibility import is_feasible
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Mask, NodeIndex, fixed
from evaluator.core.model.pod import Affinity, Pod, PodMeta, PodSpec, Toleration
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.violations import ViolationReasons
from evaluator.features.gangs.core.membership import PlacementConstraints

K = TypeVar("K")

_Asked = tuple[dict[str, str] | None, Affinity | None, list[Toleration] | None]

_decode = msgspec.json.Decoder(_Asked).decode


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

"""The cached policies, nodes and pods with a policy label, updated by the reflectors."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from evaluator.core.cache.policy_pods import PodsByPolicy
from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.model.feasibility import FeasibleNodes
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node, NodeCondition
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.pod import Pod
from evaluator.core.model.resources import Allocatable
from evaluator.core.policy.types import Policy
from evaluator.core.signals import (
    KindListed,
    NodeActionsChanged,
    NodeAnnotationsChanged,
    NodeCapacityChanged,
    NodeConditionsChanged,
    NodeLabelsChanged,
    NodeRegistered,
    NodeSetChanged,
    PlacementChanged,
    PolicyChanged,
    PolicyPodChanged,
    Signals,
)

K = TypeVar("K")
T = TypeVar("T")

_STEP = 200
"""Objects compared per step: well below a millisecond."""
_STEP_OF_KEYS = 2000
"""Keys computed per step: well below a millisecond."""


class Collection(Generic[K, T]):
    """All objects of one kind by key.

    Calls `changed(key, before, after)` for each difference, None meaning absent, and `listed` after the first
    complete list. Until then `synced` is false, and an absent object is unknown. `unserved` is why the API server
    cannot list the kind; empty if it can.
    """

    def __init__(
        self,
        key: Callable[[T], K],
        *,
        changed: Callable[[K, T | None, T | None], None],
        listed: Callable[[], None] = lambda: None,
        guard: Guard = UNGUARDED,
    ) -> None:
        """`guard` takes what `changed` raises for one object."""
        self.objects: dict[K, T] = {}
        self.synced = False
        self.unserved = ""
        self._key = key
        self._changed = changed
        self._listed = listed
        self._guard = guard

    def replace(self, objects: list[T]) -> None:
        """Replace all objects."""
        for _ in self.replacing(objects):
            pass

    def replacing(self, objects: list[T]) -> Iterator[None]:
        """Replace all objects in steps, so that the caller can yield to the event loop between them."""
        keys: set[K] = set()
        for number, obj in enumerate(objects, start=1):
            keys.add(self._key(obj))
            if number % _STEP_OF_KEYS == 0:
                yield
        for key in self.objects.keys() - keys:
            self._tell(key, self.objects.pop(key), None)
        for number, obj in enumerate(objects, start=1):
            self.put(obj)
            if number % _STEP == 0:
                yield
        first, self.synced, self.unserved = not self.synced, True, ""
        if first:
            self._listed()

    def mark_unserved(self, reason: str) -> None:
        """Record that the API server does not serve the kind: its objects are unknown until the next list."""
        self.synced, self.unserved = False, reason

    def put(self, obj: T) -> None:
        """Add or update an object."""
        key = self._key(obj)
        before = self.objects.get(key)
        self.objects[key] = obj
        if before != obj:
            self._tell(key, before, obj)

    def drop(self, obj: T) -> None:
        """Remove an object."""
        key = self._key(obj)
        if (before := self.objects.pop(key, None)) is not None:
            self._tell(key, before, None)

    def _tell(self, key: K, before: T | None, after: T | None) -> None:
        self._guard.run(key, partial(self._changed, key, before, after), None)


class WatchStaleness:
    """When each watch last received anything, by kind (seconds, monotonic): the cache of a silent watch is stale.

    A kind without any activity is missing, not stale.
    """

    def __init__(self, kinds: Iterable[str], *, bound: float) -> None:
        self._bound = bound
        self._last_seen: dict[str, float | None] = dict.fromkeys(kinds)

    def observed(self, kind: str, at: float) -> bool:
        """Record activity, including bookmarks; return whether the kind was stale before."""
        before = self._last_seen[kind]
        self._last_seen[kind] = at
        return before is not None and at - before > self._bound

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that are watched, or could be."""
        return tuple(self._last_seen)

    def is_stale(self, kind: str, now: float) -> bool:
        """Return whether the last activity of a kind was too long ago."""
        at = self._last_seen[kind]
        return at is not None and now - at > self._bound

    def age(self, kind: str, now: float) -> float | None:
        """Return the seconds since the last activity; None if there was none."""
        at = self._last_seen[kind]
        return None if at is None else now - at

    def stale(self, now: float) -> list[str]:
        """Return a message for each stale kind."""
        return [
            f"updates of {kind} from the API server (none for {now - at:.0f} s)"
            for kind, at in self._last_seen.items()
            if at is not None and self.is_stale(kind, now)
        ]


class ClusterCache:
    """Policies, nodes and pods with a policy label; publishes what changes in them."""

    def __init__(self, *, stale_after: float = math.inf, signals: Signals | None = None) -> None:
        """`stale_after`: seconds without watch events after which a kind is stale."""
        self.signals = signals or Signals()
        self._publish, guard = self.signals.publish, self.signals.guard("cluster cache")
        self.staleness = WatchStaleness(
            ("taspolicies", "nodes", "pods", "all pods"), bound=stale_after
        )
        self.policies: Collection[PolicyKey, Policy] = Collection(
            lambda policy: policy.key,
            changed=self._policy_changed,
            listed=self._kind_listed,
            guard=guard,
        )
        self.nodes: Collection[str, Node] = Collection(
            lambda node: node.metadata.name,
            changed=self._node_changed,
            listed=self._kind_listed,
            guard=guard,
        )
        self.pods: Collection[tuple[str, str], Pod] = Collection(
            lambda pod: (pod.metadata.namespace, pod.metadata.name),
            changed=self._pod_changed,
            listed=self._kind_listed,
            guard=guard,
        )

        self.running = PodsByPolicy(lambda pod: pod.running)
        self.waiting = PodsByPolicy(lambda pod: pod.waiting)
        self.requesting = PodsByPolicy(lambda pod: pod.active and pod.spec.requests_extender)
        self.not_requesting = PodsByPolicy(
            lambda pod: pod.active and not pod.spec.requests_extender
        )
        self.feasible_nodes = FeasibleNodes(self.nodes.objects, guard)
        self.leaving: set[str] = set()
        """Nodes that are being drained or shut down, or soon will be, by their conditions."""
        self._names: NodeIndex | None = None
        self._last_names = NodeIndex()

    @property
    def names(self) -> NodeIndex:
        """The sorted names of all nodes; the same object while the nodes are the same."""
        if self._names is None:
            names = NodeIndex(sorted(self.nodes.objects))
            self._names = self._last_names if self._last_names == names else names
            self._last_names = self._names
        return self._names

    def allocatable(self, node: str) -> Allocatable | None:
        """Return the allocatable resources of a node; None if they are unknown."""
        found = self.nodes.objects.get(node)
        return found.status.resource_vector if found is not None else None

    def may_exist(self, node: str) -> bool:
        """Whether a node exists; True for any name until nodes are listed."""
        return not self.nodes.synced or node in self.nodes.objects

    def _kind_listed(self) -> None:
        self._publish(KindListed())

    def _policy_changed(self, *_change: object) -> None:
        self._publish(PolicyChanged())

    def _node_changed(self, name: str, before: Node | None, after: Node | None) -> None:
        """Ignores heartbeats: they change nothing that the evaluator reads."""
        if before is None or after is None:
            self._names = None
        if _uid(before) != _uid(after):
            if self.nodes.synced:
                self._publish(NodeRegistered(name, after is not None))
            self._publish(NodeSetChanged())
        if _conditions(before) != _conditions(after):
            was_leaving = name in self.leaving
            self.leaving.discard(name)
            if after is not None and after.leaving:
                self.leaving.add(name)
            if name in self.leaving or was_leaving:
                self._publish(PlacementChanged())
            self._publish(NodeConditionsChanged(name, _conditions(after)))
        self._node_fields_changed(name, before, after)

    def _node_fields_changed(self, name: str, before: Node | None, after: Node | None) -> None:
        if before is None or after is None or before.labels_with_owners != after.labels_with_owners:
            self._publish(NodeLabelsChanged(name))
        if before is None or after is None or before.acted_on != after.acted_on:
            self._publish(NodeActionsChanged(name))
        if before is None or after is None or before.placement != after.placement:
            self.feasible_nodes.changed(name)
            self._publish(PlacementChanged())
        if before is None or after is None or before.annotated != after.annotated:
            self._publish(NodeAnnotationsChanged(name))
        if before is None or after is None or before.figures != after.figures:
            self._publish(NodeCapacityChanged(name))

    def _pod_changed(self, _key: object, before: Pod | None, after: Pod | None) -> None:
        """Ignores status updates that change nothing that the evaluator reads."""
        if before is None or after is None or before.placement != after.placement:
            for index in (self.running, self.waiting, self.requesting, self.not_requesting):
                index.change(before, after)
            self.feasible_nodes.change_pod(before, after)
            self._publish(PolicyPodChanged(before, after))
            self._publish(PlacementChanged())

    def has_policy(self, key: PolicyKey, uid: str) -> bool:
        """Return whether a policy exists, and was not deleted and made anew."""
        found = self.policies.objects.get(key)
        return found is not None and found.uid == uid

    def status_of(self, key: PolicyKey) -> Mapping[str, Any]:
        """Return the last status written to a policy by any replica."""
        found = self.policies.objects.get(key)
        return found.status if found else {}

    @property
    def waiting_for(self) -> list[str]:
        """The kinds that are not listed yet or that the API server no longer serves, with the reason."""
        kinds: dict[str, Collection[Any, Any]] = {
            "policies": self.policies,
            "nodes": self.nodes,
            "pods": self.pods,
        }
        return [
            f"{kind} ({found.unserved})" if found.unserved else kind
            for kind, found in kinds.items()
            if not found.synced
        ]


def _uid(node: Node | None) -> str | None:
    return node.metadata.uid if node else None


def _conditions(node: Node | None) -> Sequence[NodeCondition]:
    return node.status.conditions if node else ()


decode_node = msgspec.json.Decoder(Node).decode
decode_pod = msgspec.json.Decoder(Pod).decode

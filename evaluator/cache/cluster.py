"""What is known of the cluster: policies, nodes, and the pods that follow a policy. Fed by watchers, read by everybody."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from evaluator.cache.feasible_nodes import FeasibleNodes
from evaluator.cache.pods_by_policy import PodsByPolicy
from evaluator.cache.staleness import WatchStaleness
from evaluator.model.names import PolicyKey
from evaluator.model.node_index import NodeIndex
from evaluator.model.objects import Node, Pod
from evaluator.policy import parse
from evaluator.policy.types import Policy

K = TypeVar("K")
T = TypeVar("T")

_STEP = 200
"""So many objects are compared with what is known of them in well below a millisecond."""
_STEP_OF_KEYS = 2000
"""So many keys are made in that time."""


class Collection(Generic[K, T]):
    """All objects of one kind by key.

    Tells `changed` of each difference: the key, what was and what is (None: nothing); and `listed` when the kind was listed
    for the first time. Until then (`synced` is false), that something is not here means nothing.
    `unserved` is why the API server cannot list the kind, empty where it can.
    """

    def __init__(
        self,
        key: Callable[[T], K],
        *,
        changed: Callable[[K, T | None, T | None], None],
        listed: Callable[[], None],
    ) -> None:
        self.objects: dict[K, T] = {}
        self.synced = False
        self.unserved = ""
        self._key = key
        self._changed = changed
        self._listed = listed

    def replace(self, objects: list[T]) -> None:
        """These are all there are."""
        for _ in self.replacing(objects):
            pass

    def replacing(self, objects: list[T]) -> Iterator[None]:
        """These are all there are: a step for every so many, between which others may have a turn."""
        keys: set[K] = set()
        for number, obj in enumerate(objects, start=1):
            keys.add(self._key(obj))
            if number % _STEP_OF_KEYS == 0:
                yield
        for key in self.objects.keys() - keys:
            self._changed(key, self.objects.pop(key), None)
        for number, obj in enumerate(objects, start=1):
            self.put(obj)
            if number % _STEP == 0:
                yield
        first, self.synced, self.unserved = not self.synced, True, ""
        if first:
            self._listed()

    def lose(self, reason: str) -> None:
        """The API server does not serve the kind: what is here is not known to be true until it is listed again."""
        self.synced, self.unserved = False, reason

    def put(self, obj: T) -> None:
        """This one is new, or different, or the same again."""
        key = self._key(obj)
        before = self.objects.get(key)
        self.objects[key] = obj
        if before != obj:
            self._changed(key, before, obj)

    def drop(self, obj: T) -> None:
        """This one is gone."""
        key = self._key(obj)
        if (before := self.objects.pop(key, None)) is not None:
            self._changed(key, before, None)


@dataclass(slots=True)
class Listeners:
    """Who is told of what; all are called on the loop's thread and must only take note."""

    decisions: list[Callable[[], None]] = field(default_factory=list)
    """Policies or the set of nodes changed, or a kind was listed for the first time."""
    nodes: list[Callable[[str, bool], None]] = field(default_factory=list)
    """This node was registered (true), maybe in place of one of its name, or deleted (false), since nodes were listed first."""
    labels: list[Callable[[str], None]] = field(default_factory=list)
    """The labels of this node, or whose they are, changed; or it came, or went."""
    placement: list[Callable[[], None]] = field(default_factory=list)
    """Linked pods, or what decides where they may run, changed."""
    figures: list[Callable[[str], None]] = field(default_factory=list)
    """What this node has for pods, or what scorers read of it, changed; or it came, or went."""


class ClusterCache:
    """Policies, nodes and linked pods. `stale_after`: seconds without news of a kind that make what is known of it stale."""

    def __init__(self, *, stale_after: float = math.inf) -> None:
        self.listeners = Listeners()
        self.staleness = WatchStaleness(
            ("taspolicies", "nodes", "pods", "all pods"), bound=stale_after
        )
        self.policies: Collection[PolicyKey, Policy] = Collection(
            lambda policy: policy.key,
            changed=lambda *_: self._tell(self.listeners.decisions),
            listed=self._kind_listed,
        )
        self.nodes: Collection[str, Node] = Collection(
            lambda node: node.metadata.name, changed=self._node_changed, listed=self._kind_listed
        )
        self.pods: Collection[tuple[str, str], Pod] = Collection(
            lambda pod: (pod.metadata.namespace, pod.metadata.name),
            changed=self._pod_changed,
            listed=self._kind_listed,
        )

        self.running = PodsByPolicy(lambda pod: pod.running)
        self.waiting = PodsByPolicy(lambda pod: pod.waiting)
        self.feasible_nodes = FeasibleNodes(self.nodes.objects)
        self._names: NodeIndex | None = None
        self._last_names = NodeIndex()

    @property
    def names(self) -> NodeIndex:
        """Those of all nodes, sorted: one object for all who ask as long as the nodes are the same."""
        if self._names is None:
            names = NodeIndex(sorted(self.nodes.objects))
            self._names = self._last_names if self._last_names == names else names
            self._last_names = self._names
        return self._names

    def _kind_listed(self) -> None:
        """Whichever kind comes last, it is what the first decision has waited for."""
        self._tell(self.listeners.decisions)

    def _node_changed(self, name: str, before: Node | None, after: Node | None) -> None:
        """A kubelet's heartbeat changes its node every few seconds, and nothing that we look at."""
        if self.nodes.synced and _uid(before) != _uid(after):
            for registered in self.listeners.nodes:
                registered(name, after is not None)
            if before is not None and after is not None:
                self._tell(self.listeners.decisions)
        if before is None or after is None:
            self._names = None
            self._tell(self.listeners.decisions)
        if before is None or after is None or before.node_labels != after.node_labels:
            for listener in self.listeners.labels:
                listener(name)
        if before is None or after is None or before.placement != after.placement:
            self.feasible_nodes.changed(name)
            self._tell(self.listeners.placement)
        if before is None or after is None or before.figures != after.figures:
            for listener in self.listeners.figures:
                listener(name)

    def _pod_changed(self, _key: object, before: Pod | None, after: Pod | None) -> None:
        """Of a pod that runs, its kubelet has much to tell, and nothing that we look at."""
        if before is None or after is None or before.placement != after.placement:
            self.running.change(before, after)
            self.waiting.change(before, after)
            self.feasible_nodes.change_pod(before, after)
            self._tell(self.listeners.placement)

    @staticmethod
    def _tell(listeners: list[Callable[[], None]]) -> None:
        for listener in listeners:
            listener()

    def status_of(self, key: PolicyKey) -> Mapping[str, Any]:
        """What was last written to a policy's status, by whichever replica."""
        found = self.policies.objects.get(key)
        return found.status if found else {}

    @property
    def waiting_for(self) -> list[str]:
        """The kinds that were not listed yet, or that the API server does not serve any more, with the reason."""
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


class _PolicyMeta(msgspec.Struct):
    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0


class _PolicyObject(msgspec.Struct):
    """A TASPolicy whose parts are not decoded yet. Raw cannot be optional, hence the default of a JSON null."""

    metadata: _PolicyMeta
    spec: msgspec.Raw = msgspec.Raw(b"null")
    status: msgspec.Raw = msgspec.Raw(b"null")


_decode_policy_object = msgspec.json.Decoder(_PolicyObject).decode


def decode_policy(raw: msgspec.Raw) -> Policy:
    """A Policy out of a TASPolicy's JSON. A spec or status that is larger than any of use is not decoded."""
    found = _decode_policy_object(raw)
    obj: dict[str, Any] = {"metadata": msgspec.structs.asdict(found.metadata)}
    if len(found.status) <= parse.MOST_BYTES:
        obj["status"] = msgspec.json.decode(found.status)
    if len(found.spec) > parse.MOST_BYTES:
        return parse.oversized(obj, len(found.spec))
    return parse.parse(obj | {"spec": msgspec.json.decode(found.spec)})


decode_node = msgspec.json.Decoder(Node).decode
decode_pod = msgspec.json.Decoder(Pod).decode

"""What is known of the cluster: policies, nodes, and the pods that follow a policy. Fed by watchers, read by everybody."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from evaluator import policy
from evaluator.objects import Node, Pod
from evaluator.policy import Policy, PolicyKey

K = TypeVar("K")
T = TypeVar("T")


class Collection(Generic[K, T]):
    """All objects of one kind by key; tells `changed` of each difference, with what was and what is (None: nothing).

    `synced` says whether the kind was listed once. Until then, that something is not here means nothing.
    """

    def __init__(
        self, key: Callable[[T], K], changed: Callable[[T | None, T | None], None]
    ) -> None:
        self.objects: dict[K, T] = {}
        self.synced = False
        self._key = key
        self._changed = changed

    def replace(self, objects: list[T]) -> None:
        """These are all there are."""
        new = {self._key(obj): obj for obj in objects}
        for key in self.objects.keys() - new.keys():
            self._changed(self.objects.pop(key), None)
        first, self.synced = not self.synced, True
        for obj in new.values():
            self.put(obj)
        if first:
            self._changed(None, None)

    def put(self, obj: T) -> None:
        """This one is new, or different, or the same again."""
        key = self._key(obj)
        before = self.objects.get(key)
        self.objects[key] = obj
        if before != obj:
            self._changed(before, obj)

    def drop(self, obj: T) -> None:
        """This one is gone."""
        if (before := self.objects.pop(self._key(obj), None)) is not None:
            self._changed(before, None)


class Cluster:
    """Policies, nodes and linked pods. `on_change` is called after each difference, on the loop's thread."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        self.policies: Collection[PolicyKey, Policy] = Collection(
            lambda policy: policy.key, lambda _before, _after: on_change("policy")
        )
        self.nodes: Collection[str, Node] = Collection(
            lambda node: node.metadata.name, lambda _before, _after: on_change("node")
        )
        self.pods: Collection[tuple[str, str], Pod] = Collection(
            lambda pod: (pod.metadata.namespace, pod.metadata.name),
            lambda _before, _after: on_change("pod"),
        )

    @property
    def waiting_for(self) -> list[str]:
        """The kinds that were not listed yet."""
        synced = {
            "policies": self.policies.synced,
            "nodes": self.nodes.synced,
            "pods": self.pods.synced,
        }
        return [kind for kind, done in synced.items() if not done]


def decode_policy(raw: msgspec.Raw) -> Policy:
    """A Policy out of a TASPolicy's JSON."""
    obj: dict[str, Any] = msgspec.json.decode(raw, type=dict[str, Any])
    return policy.parse(obj)


decode_node = msgspec.json.Decoder(Node).decode
decode_pod = msgspec.json.Decoder(Pod).decode

"""Built-in controllers: garbage collection, namespace deletion, CRDs, PodDisruptionBudget status."""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from sandbox.apiserver.cluster import Cluster
from sandbox.apiserver.kinds import crds
from sandbox.apiserver.kinds.disruption import budget_status, matching
from sandbox.apiserver.storage.objects import Json, Key, dig, meta, name_of, namespace_of
from sandbox.apiserver.storage.store import Change
from sandbox.apiserver.writes.deletion import DeleteOptions, Remover

Place = tuple[str, Key]

_CRDS = "customresourcedefinitions.apiextensions.k8s.io"
_BUDGETS = "poddisruptionbudgets.policy"
_WORKLOADS = {"ReplicaSet": "replicasets.apps", "Deployment": "deployments.apps"}


class BuiltInControllers:
    """Handles every write synchronously."""

    def __init__(
        self, cluster: Cluster, remover: Remover, later: Callable[[Callable[[], None]], None]
    ) -> None:
        self._cluster = cluster
        self._remover = remover
        self._later = later
        self._pending: deque[Change] = deque()
        self._living: set[str] = set()
        self._owned: defaultdict[str, set[Place]] = defaultdict(set)
        cluster.store.listen(self._pending.append)

    def settle(self) -> None:
        """Reconcile all writes since the last call, including its own."""
        while self._pending:
            change = self._pending.popleft()
            self._index(change)
            self._collect_garbage(change)
            self._empty_namespaces(change)
            if change.collection == _CRDS:
                self._define(change)
            if change.collection in {"pods", _BUDGETS, *_WORKLOADS.values()}:
                self._refresh_budgets(change)

    def _index(self, change: Change) -> None:
        uid = meta(change.record.obj)["uid"]
        place = (change.collection, change.key)
        for obj in (change.before.obj if change.before else None, change.record.obj):
            for owner in _owners(obj):
                self._owned[owner].discard(place)
        if change.type == "DELETED":
            self._living.discard(uid)
            return
        self._living.add(uid)
        for owner in _owners(change.record.obj):
            self._owned[owner].add(place)

    def _collect_garbage(self, change: Change) -> None:
        """Delete dependents of a deleted owner, and objects created after their owner was deleted."""
        if change.type == "DELETED":
            dependents = self._owned.pop(meta(change.record.obj)["uid"], set())
            for collection, key in sorted(dependents):
                self._delete_if_orphaned(collection, key)
        elif change.type == "ADDED" and _owners(change.record.obj):
            self._delete_if_orphaned(change.collection, change.key)

    def _delete_if_orphaned(self, collection: str, key: Key) -> None:
        record = self._cluster.store.get(collection, key)
        if record is None or any(uid in self._living for uid in _owners(record.obj)):
            return
        if _owners(record.obj):
            self._delete(collection, key)

    def _delete(self, collection: str, key: Key) -> None:
        resource = self._cluster.registry.by_collection(collection)
        if resource is not None:
            self._remover.delete(resource, key, DeleteOptions())

    def _empty_namespaces(self, change: Change) -> None:
        if change.collection == "namespaces":
            if change.type == "MODIFIED" and meta(change.record.obj).get("deletionTimestamp"):
                # Deferred: `kubectl delete -f` of a namespace and its objects deletes them one by one, and
                # would not find the second.
                self._later(lambda: self._empty(change.key[1]))
        elif change.type == "DELETED" and self._is_terminating(change.key[0]):
            self._delete("namespaces", ("", change.key[0]))

    def _is_terminating(self, namespace: str) -> bool:
        stored = self._cluster.store.get("namespaces", ("", namespace))
        return stored is not None and "deletionTimestamp" in meta(stored.obj)

    def _empty(self, namespace: str) -> None:
        if not self._is_terminating(namespace):
            return
        for collection in self._cluster.store.collections():
            for key, _ in self._cluster.store.items(collection, namespace):
                self._delete(collection, key)
        self.settle()

    def _define(self, change: Change) -> None:
        crd = change.record.obj
        if change.type != "DELETED":
            self._cluster.registry.define(name_of(crd), crds.served(crd))
            return
        collection = name_of(crd)
        for key, _ in self._cluster.store.items(collection):
            self._cluster.store.remove(collection, key)
        self._cluster.registry.define(name_of(crd), [])

    def _refresh_budgets(self, change: Change) -> None:
        namespace = namespace_of(change.record.obj)
        budgets = list(self._cluster.objects(_BUDGETS, namespace))
        if not budgets:
            return
        pods = list(self._cluster.objects("pods", namespace))
        for budget in budgets:
            selected = [pod for pod in pods if matching([budget], pod)]
            status = budget_status(
                budget, selected, expected=self._expected(selected), now=self._cluster.clock()
            )
            if status != budget.get("status"):
                key = (namespace, name_of(budget))
                metadata = dict(meta(budget))
                self._cluster.store.put(
                    _BUDGETS, key, {**budget, "metadata": metadata, "status": status}
                )

    def _expected(self, pods: list[Json]) -> int:
        """Return the number of replicas that the pods' owners specify; a pod without an owner counts as 1."""
        wanted: dict[str, int] = {}
        for pod in pods:
            uid, count = self._scale(pod)
            wanted[uid] = count
        return sum(wanted.values())

    def _scale(self, obj: Json) -> tuple[str, int]:
        owner: Any = next(
            (o for o in meta(obj).get("ownerReferences") or () if o.get("controller")), None
        )
        collection = _WORKLOADS.get(owner["kind"]) if owner else None
        stored = collection and self._cluster.store.get(
            collection, (namespace_of(obj), owner["name"])
        )
        if not stored:
            return meta(obj)["uid"], 1
        above = self._scale(stored.obj)
        replicas = dig(stored.obj, "spec", "replicas")
        is_top = above[0] == meta(stored.obj)["uid"]
        return (above[0], int(replicas if replicas is not None else 1)) if is_top else above


def _owners(obj: Json | None) -> list[str]:
    return [owner["uid"] for owner in meta(obj or {}).get("ownerReferences") or ()]

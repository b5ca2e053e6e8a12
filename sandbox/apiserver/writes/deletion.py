"""Deletes objects: preconditions, grace periods of running pods, finalizers, and namespaces with objects."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plimsoll import rfc3339
from sandbox.apiserver.cluster import Cluster
from sandbox.apiserver.errors import bad_request, conflict, success
from sandbox.apiserver.kinds.pods import grace_period
from sandbox.apiserver.kinds.resource import Resource
from sandbox.apiserver.storage.objects import Json, Key, dig, meta
from sandbox.apiserver.storage.store import Record


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of a deletion (metav1.DeleteOptions)."""

    grace_seconds: int | None = None
    uid: str = ""
    revision: str = ""
    orphan: bool = False
    dry_run: bool = False


def delete_options(body: Any, query: Mapping[str, str]) -> DeleteOptions:
    """Return the options of a DELETE's body, else of its query."""
    options = body if isinstance(body, dict) else {}
    grace = options.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    policy = options.get("propagationPolicy") or query.get("propagationPolicy") or "Background"
    if policy not in {"Background", "Foreground", "Orphan"}:
        raise bad_request(f"invalid propagationPolicy: {policy}")
    try:
        seconds = None if grace is None else max(0, int(grace))
    except (TypeError, ValueError) as error:
        raise bad_request(f"invalid gracePeriodSeconds: {grace}") from error
    return DeleteOptions(
        grace_seconds=seconds,
        uid=dig(options, "preconditions", "uid") or "",
        revision=dig(options, "preconditions", "resourceVersion") or "",
        orphan=policy == "Orphan" or options.get("orphanDependents") is True,
        dry_run="All" in (options.get("dryRun") or [query.get("dryRun")]),
    )


class Remover:
    """Deletes from one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def delete(self, resource: Resource, key: Key, options: DeleteOptions) -> Json:
        """Delete an object or set its deletionTimestamp. Returns a Status if it was removed, else the object."""
        record = self._cluster.find(resource, key)
        _check(resource, key, record, options)
        obj = record.obj
        if options.orphan and not options.dry_run:
            self._release_dependents(meta(obj)["uid"])
        grace = grace_period(obj, options.grace_seconds) if resource.collection == "pods" else 0
        held = bool(meta(obj).get("finalizers")) or self._holds_objects(resource, key)
        if grace or held:
            return self._mark(resource, key, record, options, grace=grace)
        if not options.dry_run:
            obj = self._cluster.store.remove(resource.collection, key).obj
        if resource.collection == "pods":
            return obj
        return success(resource.subject(key[1]), uid=meta(obj)["uid"])

    def _mark(
        self, resource: Resource, key: Key, record: Record, options: DeleteOptions, *, grace: int
    ) -> Json:
        old = meta(record.obj)
        if old.get("deletionTimestamp") and grace >= old.get("deletionGracePeriodSeconds", 0):
            return record.obj
        due = rfc3339.seconds(self._cluster.clock() + grace)
        obj: Json = {**record.obj, "metadata": dict(old)}
        obj["metadata"] |= {"deletionTimestamp": due, "deletionGracePeriodSeconds": grace}
        if resource.collection == "namespaces":
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        if resource.behaviour.counts_generations:
            obj["metadata"]["generation"] = old.get("generation", 1) + 1
        if not options.dry_run:
            self._cluster.store.put(resource.collection, key, obj)
        return obj

    def _holds_objects(self, resource: Resource, key: Key) -> bool:
        store = self._cluster.store
        return resource.collection == "namespaces" and any(
            store.items(collection, key[1]) for collection in store.collections()
        )

    def _release_dependents(self, uid: str) -> None:
        """Remove an owner's references from its dependents (orphan)."""
        store = self._cluster.store
        for collection in store.collections():
            for key, record in store.items(collection):
                owners = meta(record.obj).get("ownerReferences") or ()
                if all(owner.get("uid") != uid for owner in owners):
                    continue
                kept = [owner for owner in owners if owner.get("uid") != uid]
                metadata = {**meta(record.obj), "ownerReferences": kept}
                store.put(collection, key, {**record.obj, "metadata": metadata})


def _check(resource: Resource, key: Key, record: Record, options: DeleteOptions) -> None:
    for wanted, field, called in (
        (options.uid, "uid", "UID"),
        (options.revision, "resourceVersion", "ResourceVersion"),
    ):
        have = meta(record.obj)[field]
        if wanted and wanted != have:
            why = (
                f"Precondition failed: {called} in precondition: {wanted}, "
                f"{called} in object meta: {have}"
            )
            raise conflict(resource.subject(key[1]), why)

"""The state of a cluster: objects, served resources and the clock."""

import uuid
from collections.abc import Callable, Iterable

from sandbox.apiserver.errors import forbidden, not_found
from sandbox.apiserver.kinds.resource import Resource
from sandbox.apiserver.kinds.resources import Registry
from sandbox.apiserver.storage.objects import Json, Key, meta
from sandbox.apiserver.storage.store import Record, Store


class Cluster:
    """Objects, resources and the clock."""

    def __init__(self, clock: Callable[[], float], history: int) -> None:
        self.clock = clock
        self.store = Store(history)
        self.registry = Registry()

    def new_uid(self) -> str:
        """Return a UID that no object had before."""
        return str(uuid.uuid4())

    def find(self, resource: Resource, key: Key) -> Record:
        """Return a stored object. Raises a 404 if it does not exist."""
        record = self.store.get(resource.collection, key)
        if record is None:
            raise not_found(resource.subject(key[1]))
        return record

    def require_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        """Raise a 404 if a namespace does not exist, a 403 if it is being deleted."""
        if not resource.namespaced:
            return
        stored = self.store.get("namespaces", ("", namespace))
        if stored is None:
            owner = self.registry.find("", "v1", "namespaces")
            assert owner is not None
            raise not_found(owner.subject(namespace))
        if meta(stored.obj).get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(resource.subject(name), why)

    def objects(self, collection: str, namespace: str = "") -> Iterable[Json]:
        """Return the objects of a collection, or of one namespace of it."""
        return [record.obj for _, record in self.store.items(collection, namespace)]

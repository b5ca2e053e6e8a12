"""The objects of a cluster, one resourceVersion counter for all, and a bounded history of changes."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from sandbox.apiserver.errors import expired, too_new
from sandbox.apiserver.storage.objects import Json, Key, encode, meta

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Record:
    """A stored, immutable object. Its JSON is encoded once for all lists and watches."""

    __slots__ = ("_json", "obj", "revision")

    def __init__(self, obj: Json, revision: int) -> None:
        self.obj = obj
        self.revision = revision
        self._json: bytes | None = None

    @property
    def json(self) -> bytes:
        """Return the object as JSON bytes."""
        if self._json is None:
            self._json = encode(self.obj)
        return self._json


class Change(NamedTuple):
    """One write. `record` is the object after it; for a deletion, its last state."""

    revision: int
    type: ChangeType
    collection: str
    key: Key
    before: Record | None
    record: Record


class Store:
    """Objects by collection and key. A collection is a resource with its group: `pods`, `deployments.apps`."""

    def __init__(self, history: int) -> None:
        self.revision = 1
        self._collections: dict[str, dict[Key, Record]] = {}
        # Revisions are consecutive, so the index of a change follows from its revision.
        self._history: deque[Change] = deque(maxlen=history)
        self._listeners: list[Callable[[Change], None]] = []

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call the listener after every write."""
        self._listeners.append(listener)

    def get(self, collection: str, key: Key) -> Record | None:
        """Return an object, or None."""
        return self._collections.get(collection, {}).get(key)

    def items(self, collection: str, namespace: str = "") -> list[tuple[Key, Record]]:
        """Return a collection, or one namespace of it, in list order."""
        items = self._collections.get(collection, {})
        if namespace:
            return sorted(item for item in items.items() if item[0][0] == namespace)
        return sorted(items.items(), key=lambda item: item[0])

    def collections(self) -> list[str]:
        """Return every collection that ever had an object."""
        return list(self._collections)

    def put(self, collection: str, key: Key, obj: Json) -> Record:
        """Write an object and set its resourceVersion. The store keeps `obj`; do not change it afterwards."""
        objects = self._collections.setdefault(collection, {})
        before = objects.get(key)
        record = objects[key] = self._stamp(obj)
        self._tell("MODIFIED" if before else "ADDED", collection, key, before, record)
        return record

    def remove(self, collection: str, key: Key, last: Json | None = None) -> Record:
        """Delete an object. Its last state gets a new resourceVersion."""
        before = self._collections[collection].pop(key)
        last = last or before.obj
        record = self._stamp({**last, "metadata": dict(meta(last))})
        self._tell("DELETED", collection, key, before, record)
        return record

    def changes(self, after: int) -> Iterator[Change]:
        """Return the changes after a revision. Raises a 410 if the history does not go back that far."""
        if after > self.revision:
            raise too_new(after, self.revision)
        missing = self.revision - after
        if missing > len(self._history):
            oldest = self.revision - len(self._history)
            raise expired(f"too old resource version: {after} ({oldest})")
        return iter([self._history[index] for index in range(-missing, 0)])

    def snapshot(self, collection: str, revision: int) -> list[tuple[Key, Record]]:
        """Return a collection at a revision: the current one with later changes undone."""
        objects = dict(self._collections.get(collection, {}))
        for change in reversed(list(self.changes(revision))):
            if change.collection != collection:
                continue
            if change.before is None:
                objects.pop(change.key, None)
            else:
                objects[change.key] = change.before
        return sorted(objects.items(), key=lambda item: item[0])

    def expire_history(self) -> None:
        """Drop the history: every resourceVersion but the latest is now too old."""
        # A watch from the latest revision must still work, an earlier one must not.
        self.revision += 1
        self._history.clear()

    def _stamp(self, obj: Json) -> Record:
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        return Record(obj, self.revision)

    def _tell(
        self, kind: ChangeType, collection: str, key: Key, before: Record | None, record: Record
    ) -> None:
        change = Change(record.revision, kind, collection, key, before, record)
        self._history.append(change)
        for listener in self._listeners:
            listener(change)

"""Every object of the cluster, one resourceVersion counter over all of them, and a bounded history of what changed."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from sandbox.apiserver.errors import expired, too_new
from sandbox.apiserver.storage.objects import Json, Key, encode, meta

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Record:
    """A stored object. It never changes; its JSON is made once, however many lists and watches show it."""

    __slots__ = ("_json", "obj", "revision")

    def __init__(self, obj: Json, revision: int) -> None:
        self.obj = obj
        self.revision = revision
        self._json: bytes | None = None

    @property
    def json(self) -> bytes:
        """The object as it goes over the wire."""
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
        # Revisions are handed out one by one, so a change's place here follows from its revision.
        self._history: deque[Change] = deque(maxlen=history)
        self._listeners: list[Callable[[Change], None]] = []

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call it after every write."""
        self._listeners.append(listener)

    def get(self, collection: str, key: Key) -> Record | None:
        """One object, or None."""
        return self._collections.get(collection, {}).get(key)

    def items(self, collection: str, namespace: str = "") -> list[tuple[Key, Record]]:
        """A collection, or the part of it in one namespace, in the order in which lists show it."""
        found = self._collections.get(collection, {})
        if namespace:
            return sorted(item for item in found.items() if item[0][0] == namespace)
        return sorted(found.items(), key=lambda item: item[0])

    def collections(self) -> list[str]:
        """Every collection that ever held something."""
        return list(self._collections)

    def put(self, collection: str, key: Key, obj: Json) -> Record:
        """Write an object, giving it its resourceVersion. The store keeps `obj`: don't change it afterwards."""
        objects = self._collections.setdefault(collection, {})
        before = objects.get(key)
        record = objects[key] = self._stamp(obj)
        self._tell("MODIFIED" if before else "ADDED", collection, key, before, record)
        return record

    def remove(self, collection: str, key: Key, last: Json | None = None) -> Record:
        """Delete an object; its last state gets a resourceVersion of its own."""
        before = self._collections[collection].pop(key)
        last = last or before.obj
        record = self._stamp({**last, "metadata": dict(meta(last))})
        self._tell("DELETED", collection, key, before, record)
        return record

    def changes(self, after: int) -> Iterator[Change]:
        """What was written after a revision. Raises 410 where the history no longer reaches back so far."""
        if after > self.revision:
            raise too_new(after, self.revision)
        missing = self.revision - after
        if missing > len(self._history):
            oldest = self.revision - len(self._history)
            raise expired(f"too old resource version: {after} ({oldest})")
        return iter([self._history[index] for index in range(-missing, 0)])

    def snapshot(self, collection: str, revision: int) -> list[tuple[Key, Record]]:
        """A collection as it was at a revision: today's, with what was written since undone."""
        found = dict(self._collections.get(collection, {}))
        for change in reversed(list(self.changes(revision))):
            if change.collection != collection:
                continue
            if change.before is None:
                found.pop(change.key, None)
            else:
                found[change.key] = change.before
        return sorted(found.items(), key=lambda item: item[0])

    def expire_history(self) -> None:
        """Forget the past: every resourceVersion but the latest is too old from now on."""
        # A watch that starts at the latest revision must still work; one from before it must not.
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

"""Watches: converts changes of the store into watch events and streams them."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from sandbox.apiserver.cluster import Cluster
from sandbox.apiserver.errors import ApiError
from sandbox.apiserver.http.views import View
from sandbox.apiserver.kinds.resource import Resource
from sandbox.apiserver.storage.lists import ListQuery, list_page
from sandbox.apiserver.storage.objects import encode, meta
from sandbox.apiserver.storage.selectors import Selector
from sandbox.apiserver.storage.store import Change, ChangeType, Record

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


@dataclass(frozen=True, slots=True)
class WatchQuery:
    """Options of a watch. `after`: the revision to start after; None to start with all existing objects."""

    selector: Selector
    namespace: str = ""
    after: int | None = None
    bookmarks: bool = False
    announce_initial: bool = False
    timeout: float = 1800.0


def seen(change: Change, query: WatchQuery) -> tuple[ChangeType, Record] | None:
    """Return the watch event of a change, or None. An object that starts matching is ADDED, one that stops is DELETED."""
    if query.namespace and change.key[0] != query.namespace:
        return None
    matches = query.selector.matches
    was = change.before is not None and matches(change.before.obj)
    if change.type == "DELETED":
        return ("DELETED", change.record) if was else None
    if matches(change.record.obj):
        return ("MODIFIED" if was else "ADDED"), change.record
    if was and change.before is not None:
        return "DELETED", _at(change.before, change.revision)
    return None


def _at(record: Record, revision: int) -> Record:
    metadata = {**meta(record.obj), "resourceVersion": str(revision)}
    return Record({**record.obj, "metadata": metadata}, revision)


def framed(kind: EventType, body: bytes) -> bytes:
    """Return one line of a watch stream."""
    return b"".join((b'{"type":"', kind.encode(), b'","object":', body, b"}\n"))


class Watches:
    """The open watches of one server."""

    def __init__(self, cluster: Cluster, *, bookmark_interval: float) -> None:
        self._cluster = cluster
        self._interval = bookmark_interval
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._closed = False
        # The number of bookmarks requested by `send_bookmarks`; a watch that has sent fewer sends one.
        self._bookmarks = 0
        cluster.store.listen(lambda change: self._wake(change.collection))

    def close(self) -> None:
        """End all watches."""
        self._closed = True
        self.wake_all()

    def send_bookmarks(self) -> None:
        """Send a bookmark to every watch with bookmarks enabled."""
        self._bookmarks += 1
        self.wake_all()

    def wake_all(self) -> None:
        """Wake all watches to read the store again."""
        for collection in self._waiting:
            self._wake(collection)

    def _wake(self, collection: str) -> None:
        for event in self._waiting[collection]:
            event.set()

    async def stream(
        self, resource: Resource, query: WatchQuery, make_view: Callable[[], View]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch until its timeout, or until its resource is removed."""
        wakeup = asyncio.Event()
        self._waiting[resource.collection].add(wakeup)
        try:
            async for chunk in self._follow(resource, query, wakeup, make_view):
                yield chunk
        except ApiError as error:
            yield framed("ERROR", encode(error.status()))
        finally:
            self._waiting[resource.collection].discard(wakeup)

    async def _follow(
        self,
        resource: Resource,
        query: WatchQuery,
        wakeup: asyncio.Event,
        make_view: Callable[[], View],
    ) -> AsyncGenerator[bytes, None]:
        now = asyncio.get_running_loop().time
        cursor, sent, deadline = query.after, self._bookmarks, now() + query.timeout
        bookmark_due = now() + self._interval
        if cursor is None:
            cursor = self._cluster.store.revision
            yield b"".join(self._initial(resource, query, make_view()))
        while not self._closed and self._serves(resource):
            wakeup.clear()
            changes, cursor = (
                list(self._cluster.store.changes(cursor)),
                self._cluster.store.revision,
            )
            if lines := b"".join(_lines(changes, resource, query, make_view)):
                yield lines
            if query.bookmarks and (sent != self._bookmarks or now() >= bookmark_due):
                sent, bookmark_due = self._bookmarks, now() + self._interval
                yield _bookmark(resource, cursor)
            if now() >= deadline:
                return
            until = min(deadline, bookmark_due) if query.bookmarks else deadline
            await _wait(wakeup, until - now())

    def _initial(self, resource: Resource, query: WatchQuery, view: View) -> Iterator[bytes]:
        listed = ListQuery(selector=query.selector)
        page = list_page(self._cluster.store, resource.collection, query.namespace, listed)
        for record in page.records:
            yield framed("ADDED", view.one(record))
        if query.announce_initial:
            yield _bookmark(resource, page.revision, ends_initial=True)

    def _serves(self, resource: Resource) -> bool:
        served = self._cluster.registry.find(resource.group, resource.version, resource.plural)
        return served is not None


async def _wait(wakeup: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await wakeup.wait()
    except TimeoutError:
        return


def _lines(
    changes: list[Change], resource: Resource, query: WatchQuery, make_view: Callable[[], View]
) -> Iterator[bytes]:
    view: View | None = None
    for change in changes:
        if change.collection == resource.collection and (event := seen(change, query)):
            view = view or make_view()
            yield framed(event[0], view.one(event[1]))


def _bookmark(resource: Resource, revision: int, *, ends_initial: bool = False) -> bytes:
    metadata: dict[str, object] = {"resourceVersion": str(revision)}
    if ends_initial:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    return framed("BOOKMARK", encode(obj))

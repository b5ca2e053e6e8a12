"""The state of a cluster, and reads of it: single objects and paged lists."""

import base64
import binascii
import json
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sandbox.apiserver.errors import ApiError, bad_request, expired, forbidden, not_found, too_new
from sandbox.apiserver.kinds.resource import Resource
from sandbox.apiserver.kinds.resources import Registry
from sandbox.apiserver.storage.objects import Json, Key, meta
from sandbox.apiserver.storage.selectors import EVERYTHING, Selector
from sandbox.apiserver.storage.store import Record, Store


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Options of a list request."""

    selector: Selector = EVERYTHING
    limit: int = 0
    token: str = ""
    revision: str = ""
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list, and its continue token."""

    records: list[Record]
    revision: int
    token: str = ""
    remaining: int | None = None


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
        found = self.store.get("namespaces", ("", namespace))
        if found is None:
            owner = self.registry.find("", "v1", "namespaces")
            assert owner is not None
            raise not_found(owner.subject(namespace))
        if meta(found.obj).get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(resource.subject(name), why)

    def objects(self, collection: str, namespace: str = "") -> Iterable[Json]:
        """Return the objects of a collection, or of one namespace of it."""
        return [record.obj for _, record in self.store.items(collection, namespace)]

    def list_page(self, resource: Resource, namespace: str, query: ListQuery) -> Page:
        """Return the first or next page of a list."""
        revision, start = self._list_start(query)
        items = self._items(resource, namespace, revision)
        items = [item for item in items if item[0] > start] if start else items
        if query.selector.predicates:
            items = [item for item in items if query.selector.matches(item[1].obj)]
        if not query.limit or len(items) <= query.limit:
            return Page([record for _, record in items], revision)
        page = items[: query.limit]
        # A real server does not know how many more match a selector.
        remaining = None if query.selector.predicates else len(items) - query.limit
        token = _write_token(revision, page[-1][0])
        return Page([record for _, record in page], revision, token, remaining)

    def _list_start(self, query: ListQuery) -> tuple[int, Key | None]:
        if query.token:
            return _read_token(query.token)
        wanted = parse_revision(query.revision)
        if wanted > self.store.revision:
            raise too_new(wanted, self.store.revision)
        return (wanted if query.exact and wanted else self.store.revision), None

    def _items(self, resource: Resource, namespace: str, revision: int) -> list[tuple[Key, Record]]:
        if revision == self.store.revision:
            return self.store.items(resource.collection, namespace)
        try:
            items = self.store.snapshot(resource.collection, revision)
        except ApiError as error:
            raise expired(
                "The provided continue parameter is too old to display a consistent list result. "
                "You must start a new list without the continue parameter."
            ) from error
        return [item for item in items if not namespace or item[0][0] == namespace]


def parse_revision(text: str) -> int:
    """Return the resourceVersion of a query; 0 if absent."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise bad_request(f'Invalid value: "{text}": resourceVersion must be a number')
    return int(text)


def _write_token(revision: int, last: Key) -> str:
    text = json.dumps({"v": "plimsoll/v1", "rv": revision, "after": last})
    return base64.urlsafe_b64encode(text.encode()).decode()


def _read_token(token: str) -> tuple[int, Key]:
    try:
        found: Any = json.loads(base64.urlsafe_b64decode(token))
        namespace, name = found["after"]
        return int(found["rv"]), (namespace, name)
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        raise bad_request("continue key is not valid") from error

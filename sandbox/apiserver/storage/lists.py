"""Reads of a collection: the first and next pages of a list, at the current or an earlier revision."""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

from sandbox.apiserver.errors import ApiError, bad_request, expired, too_new
from sandbox.apiserver.storage.objects import Key
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


def list_page(store: Store, collection: str, namespace: str, query: ListQuery) -> Page:
    """Return the first or next page of a list."""
    revision, start = _start(store, query)
    items = _items(store, collection, namespace, revision)
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


def _start(store: Store, query: ListQuery) -> tuple[int, Key | None]:
    if query.token:
        return _read_token(query.token)
    wanted = parse_revision(query.revision)
    if wanted > store.revision:
        raise too_new(wanted, store.revision)
    return (wanted if query.exact and wanted else store.revision), None


def _items(
    store: Store, collection: str, namespace: str, revision: int
) -> list[tuple[Key, Record]]:
    if revision == store.revision:
        return store.items(collection, namespace)
    try:
        items = store.snapshot(collection, revision)
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
        token_fields: Any = json.loads(base64.urlsafe_b64decode(token))
        namespace, name = token_fields["after"]
        return int(token_fields["rv"]), (namespace, name)
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        raise bad_request("continue key is not valid") from error

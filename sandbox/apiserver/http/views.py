"""Representations of objects: whole, rows of a Table, or PartialObjectMetadata."""

from collections.abc import Iterable
from typing import Any, Protocol

from sandbox.apiserver.http.columns import columns_of
from sandbox.apiserver.http.requests import Form
from sandbox.apiserver.http.tables import definitions, row
from sandbox.apiserver.kinds.resource import Resource
from sandbox.apiserver.storage.lists import Page
from sandbox.apiserver.storage.objects import Json, encode, meta
from sandbox.apiserver.storage.store import Record


class View(Protocol):
    """A representation of objects of one resource."""

    def one(self, record: Record) -> bytes:
        """Return one object."""
        ...

    def many(self, page: Page) -> bytes:
        """Return a list."""
        ...


def view(form: Form, resource: Resource, *, include: str, now: float) -> View:
    """Return the view that the client requested."""
    match form:
        case "object":
            return WholeObjects(resource)
        case "table":
            return Table(resource, include=include, now=now)
        case "partial":
            return PartialMetadata(resource)


def _list_meta(page: Page) -> Json:
    shown: Json = {"resourceVersion": str(page.revision)}
    if page.token:
        shown["continue"] = page.token
        if page.remaining is not None:
            shown["remainingItemCount"] = page.remaining
    return shown


def _list(kind: str, api_version: str, page: Page, items: Iterable[bytes]) -> bytes:
    head = encode({"kind": kind, "apiVersion": api_version, "metadata": _list_meta(page)})
    return b"".join((head[:-1], b',"items":[', b",".join(items), b"]}"))


class WholeObjects:
    """Whole objects."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource

    def one(self, record: Record) -> bytes:
        if self._resource.conversion is None:
            return record.json
        return encode(self._resource.from_stored(record.obj))

    def many(self, page: Page) -> bytes:
        resource = self._resource
        kind = resource.list_kind or f"{resource.kind}List"
        return _list(kind, resource.api_version, page, map(self.one, page.records))


_META = "meta.k8s.io/v1"


class PartialMetadata:
    """PartialObjectMetadata."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource

    def one(self, record: Record) -> bytes:
        return encode(_partial(record.obj))

    def many(self, page: Page) -> bytes:
        return _list("PartialObjectMetadataList", _META, page, map(self.one, page.records))


def _partial(obj: Json) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": meta(obj)}


class Table:
    """Rows of a Table, with the columns of the kind."""

    def __init__(self, resource: Resource, *, include: str, now: float) -> None:
        self._resource = resource
        self._include = include
        self._now = now
        self._columns = columns_of(resource)

    def one(self, record: Record) -> bytes:
        version = meta(record.obj).get("resourceVersion", "")
        return encode(self._table([record], {"resourceVersion": version}))

    def many(self, page: Page) -> bytes:
        return encode(self._table(page.records, _list_meta(page)))

    def _table(self, records: Iterable[Record], metadata: Json) -> Json:
        return {
            "kind": "Table",
            "apiVersion": _META,
            "metadata": metadata,
            "columnDefinitions": definitions(self._columns),
            "rows": [
                {"cells": row(self._columns, record.obj, now=self._now), **self._shown(record)}
                for record in records
            ],
        }

    def _shown(self, record: Record) -> dict[str, Any]:
        match self._include:
            case "None":
                return {}
            case "Object":
                return {"object": self._resource.from_stored(record.obj)}
            case _:
                return {"object": _partial(record.obj)}

"""Decodes request bodies into objects: checks the kind and decodes metadata as Go does."""

from collections.abc import Mapping
from typing import Any

from sandbox.apiserver.errors import bad_request
from sandbox.apiserver.kinds.resource import Resource
from sandbox.apiserver.kinds.shapes import without_nulls
from sandbox.apiserver.kinds.syntax import json_type, text_map_fault
from sandbox.apiserver.storage.objects import Json

_TEXTS = ("name", "namespace", "generateName", "uid", "resourceVersion", "deletionTimestamp")


def decode(resource: Resource, body: Any) -> Json:
    """Return the object of a body. Raises a 400 if it is not of the resource's kind."""
    if not isinstance(body, dict):
        raise bad_request(
            f"couldn't get version/kind; json parse error: {json_type(body)} is not an object"
        )
    kind, version = (
        body.get("kind") or resource.kind,
        body.get("apiVersion") or resource.api_version,
    )
    if (kind, version) != (resource.kind, resource.api_version):
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {resource.kind}: '
            f"the object in the request is not a {resource.api_version} {resource.kind}"
        )
    metadata = without_nulls(_metadata(resource, body), "metadata")
    rest = {field: value for field, value in body.items() if field != "metadata"}
    obj = rest if resource.is_custom else without_nulls(rest)
    obj = {**obj, "apiVersion": version, "kind": kind, "metadata": metadata}
    return resource.to_stored(obj)


def _metadata(resource: Resource, body: Mapping[str, Any]) -> Json:
    given = body.get("metadata") or {}
    if not isinstance(given, dict):
        raise _unfit(resource, "metadata", f"cannot unmarshal {json_type(given)} into an object")
    metadata = {key: value for key, value in given.items() if value is not None}
    for field in ("labels", "annotations"):
        if (texts := metadata.get(field)) is None:
            continue
        if fault := text_map_fault(texts):
            raise _unfit(resource, f"metadata.{field}", fault)
        metadata[field] = {key: value or "" for key, value in texts.items()}
    for field in _TEXTS:
        if not isinstance(value := metadata.get(field, ""), str):
            raise _unfit(
                resource, f"metadata.{field}", f"cannot unmarshal {json_type(value)} into a string"
            )
    return metadata


def _unfit(resource: Resource, field: str, why: str) -> Exception:
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
        f"json: {why} (field {field})"
    )

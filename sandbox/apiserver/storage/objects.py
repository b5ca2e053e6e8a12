"""API objects as plain JSON, and accessors of their common fields."""

import json
from collections.abc import Mapping
from typing import Any

from plimsoll import rfc3339

Json = dict[str, Any]
Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""


def encode(value: object) -> bytes:
    """Return a value as JSON bytes."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def meta(obj: Mapping[str, Any]) -> Json:
    """Return an object's metadata; empty if absent."""
    return obj.get("metadata") or {}


def name_of(obj: Mapping[str, Any]) -> str:
    """Return an object's name; empty if absent."""
    return str(meta(obj).get("name") or "")


def namespace_of(obj: Mapping[str, Any]) -> str:
    """Return an object's namespace; empty for cluster-scoped ones."""
    return str(meta(obj).get("namespace") or "")


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return an object's labels."""
    return meta(obj).get("labels") or {}


def dig(obj: Any, *path: str) -> Any:
    """Return the value at a path of field names; None if any is absent."""
    for name in path:
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(name)
    return obj


def condition(obj: Mapping[str, Any], kind: str) -> Json | None:
    """Return the status condition of a type, or None."""
    for status_condition in dig(obj, "status", "conditions") or ():
        if status_condition.get("type") == kind:
            return dict(status_condition)
    return None


def with_condition(conditions: list[Json] | None, wanted: Json, *, now: float) -> list[Json]:
    """Return conditions with one of them set. Its transition time changes only with its status."""
    kept = [item for item in conditions or () if item.get("type") != wanted["type"]]
    old = next((item for item in conditions or () if item.get("type") == wanted["type"]), None)
    same = old is not None and old.get("status") == wanted["status"]
    since = old.get("lastTransitionTime") if same and old else None
    return [*kept, {"lastTransitionTime": since or rfc3339.seconds(now), **wanted}]

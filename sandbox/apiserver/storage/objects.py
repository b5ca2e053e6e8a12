"""API objects as plain JSON, and how to read what every one of them carries."""

import json
from collections.abc import Mapping
from typing import Any

from plimsoll import rfc3339

Json = dict[str, Any]
Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""


def encode(value: object) -> bytes:
    """JSON as it goes over the wire."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def meta(obj: Mapping[str, Any]) -> Json:
    """An object's metadata, empty where it has none."""
    return obj.get("metadata") or {}


def name_of(obj: Mapping[str, Any]) -> str:
    """An object's name, empty where it has none."""
    return str(meta(obj).get("name") or "")


def namespace_of(obj: Mapping[str, Any]) -> str:
    """An object's namespace, empty for a cluster-scoped one."""
    return str(meta(obj).get("namespace") or "")


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """An object's labels."""
    return meta(obj).get("labels") or {}


def dig(obj: Any, *path: str) -> Any:
    """The value at a path of field names, None where any of them is absent."""
    for name in path:
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(name)
    return obj


def condition(obj: Mapping[str, Any], kind: str) -> Json | None:
    """The status condition of one type."""
    for found in dig(obj, "status", "conditions") or ():
        if found.get("type") == kind:
            return dict(found)
    return None


def with_condition(conditions: list[Json] | None, wanted: Json, *, now: float) -> list[Json]:
    """Conditions with one of them set; its transition time moves only when its status does."""
    kept = [item for item in conditions or () if item.get("type") != wanted["type"]]
    old = next((item for item in conditions or () if item.get("type") == wanted["type"]), None)
    same = old is not None and old.get("status") == wanted["status"]
    since = old.get("lastTransitionTime") if same and old else None
    return [*kept, {"lastTransitionTime": since or rfc3339.seconds(now), **wanted}]

"""Syntax of names, labels and annotations; validation of metadata."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from plimsoll.labels.syntax import label_key_fault, label_value_fault
from sandbox.apiserver.errors import Cause, invalid_value, required
from sandbox.apiserver.storage.objects import Json

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_ANNOTATIONS_LIMIT = 256 * 1024

_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)


def dns_label_fault(text: str) -> str:
    """Return why a text is not a DNS label, or an empty string."""
    if len(text) > 63:
        return "must be no more than 63 characters"
    return "" if _LABEL.fullmatch(text) else _LABEL_RULE


def path_segment_fault(text: str) -> str:
    """Return why a text is not a valid URL path segment, or an empty string."""
    if text in {".", ".."}:
        return f"may not be '{text}'"
    bad = next((sign for sign in "/%" if sign in text), "")
    return f"may not contain '{bad}'" if bad else ""


def metadata_faults(metadata: Json, *, name_fault: Callable[[str], str]) -> list[Cause]:
    """Return all validation errors of metadata."""
    return [
        *_name_faults(metadata, name_fault),
        *label_faults(metadata.get("labels") or {}, "metadata.labels"),
        *_annotation_faults(metadata.get("annotations") or {}),
        *_owner_faults(metadata.get("ownerReferences") or []),
        *_finalizer_faults(metadata.get("finalizers") or []),
    ]


def label_faults(labels: Mapping[str, str], field: str) -> list[Cause]:
    """Return all validation errors of labels."""
    causes = []
    for key, value in labels.items():
        if fault := label_key_fault(key):
            causes.append(invalid_value(field, key, fault))
        if fault := label_value_fault(value):
            causes.append(invalid_value(field, value, fault))
    return causes


def _name_faults(metadata: Json, name_fault: Callable[[str], str]) -> list[Cause]:
    name = metadata.get("name")
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    fault = name_fault(name)
    return [invalid_value("metadata.name", name, fault)] if fault else []


def _annotation_faults(annotations: Mapping[str, str]) -> list[Cause]:
    causes = [
        invalid_value("metadata.annotations", key, fault)
        for key in annotations
        # Unlike a label's prefix, an annotation's may have capitals.
        if (fault := label_key_fault(key.lower()))
    ]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _ANNOTATIONS_LIMIT:
        message = f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes"
        causes.append(Cause("FieldValueTooLong", message, "metadata.annotations"))
    return causes


def _owner_faults(owners: list[Json]) -> list[Cause]:
    causes = [
        required(f"metadata.ownerReferences[{index}].{field}", "must not be empty")
        for index, owner in enumerate(owners)
        for field in ("apiVersion", "kind", "name", "uid")
        if not owner.get(field)
    ]
    if sum(1 for owner in owners if owner.get("controller")) > 1:
        why = "Only one reference can have Controller set to true"
        causes.append(invalid_value("metadata.ownerReferences", owners, why))
    return causes


def _finalizer_faults(finalizers: list[str]) -> list[Cause]:
    return [
        invalid_value("metadata.finalizers", name, fault)
        for name in finalizers
        if (fault := label_key_fault(name))
    ]


def text_map_fault(value: Any) -> str:
    """Return why a JSON value is not a string map, or an empty string; null values count as empty."""
    if not isinstance(value, Mapping):
        return f"cannot unmarshal {json_type(value)} into a map of strings"
    for item in value.values():
        if item is not None and not isinstance(item, str):
            return f"cannot unmarshal {json_type(item)} into a string"
    return ""


def json_type(value: Any) -> str:
    """Return the JSON type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"

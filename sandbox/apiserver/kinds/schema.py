"""OpenAPI v3 schemas of custom resources: pruning, defaulting and validation."""

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from sandbox.apiserver.errors import (
    Cause,
    duplicate,
    invalid_value,
    not_supported,
    required,
    wrong_type,
)
from sandbox.apiserver.storage.objects import Json

ANY = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"
_OBJECT_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def prune(value: Any, schema: Json, path: str = "", *, root: bool = True) -> list[str]:
    """Remove unknown fields in place and return their paths."""
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [
            lost
            for index, item in enumerate(value)
            for lost in prune(item, items, f"{path}[{index}]", root=False)
        ]
    if not isinstance(value, dict):
        return []
    lost = []
    for name in list(value):
        inner = _inner(schema, name)
        if name in _OBJECT_FIELDS and (root or schema.get(EMBEDDED)):
            continue
        if inner is not None:
            lost += prune(value[name], inner, _join(path, name), root=False)
        elif not schema.get(ANY):
            del value[name]
            lost.append(_join(path, name))
    return lost


def _inner(schema: Json, name: str) -> Json | None:
    properties = schema.get("properties") or {}
    if name in properties:
        inner: Json = properties[name]
        return inner
    match schema.get("additionalProperties"):
        case dict() as inner:
            return inner
        case True:
            return {ANY: True}
        case _:
            return None


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def apply_defaults(value: Any, schema: Json) -> None:
    """Set the schema's defaults in place."""
    if isinstance(value, list):
        for item in value:
            apply_defaults(item, schema.get("items") or {})
        return
    if not isinstance(value, dict):
        return
    for name, inner in (schema.get("properties") or {}).items():
        unset = name not in value or (value[name] is None and not inner.get("nullable"))
        if "default" in inner and unset:
            value[name] = copy.deepcopy(inner["default"])
    for name, item in value.items():
        apply_defaults(item, _inner(schema, name) or {})


def validate(value: Any, schema: Json, path: str = "") -> Iterator[Cause]:
    """Return all validation errors of a value."""
    if value is None and schema.get("nullable"):
        return
    if fault := _type_fault(value, schema):
        yield wrong_type(
            path, json_kind(value), f'{path} in body must be of type {fault}: "{json_kind(value)}"'
        )
        return
    if "enum" in schema and not any(_equal(value, each) for each in schema["enum"]):
        yield not_supported(path, value, schema["enum"])
    yield from _format_faults(value, schema, path)
    match value:
        case str():
            yield from _text_faults(value, schema, path)
        case bool():
            pass
        case int() | float():
            yield from _number_faults(value, schema, path)
        case list():
            yield from _list_faults(value, schema, path)
        case dict():
            yield from _object_faults(value, schema, path)
        case _:
            pass
    yield from _combined_faults(value, schema, path)


def _equal(a: Any, b: Any) -> bool:
    """Return whether two JSON values are equal; 1 is not true."""
    return bool(a == b) and isinstance(a, bool) is isinstance(b, bool)


def json_kind(value: Any) -> str:
    """Return the schema type of a JSON value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _type_fault(value: Any, schema: Json) -> str:
    kind = json_kind(value)
    if schema.get(INT_OR_STRING):
        return "" if kind in {"integer", "string"} else "integer,string"
    wanted = schema.get("type")
    if not wanted:
        return ""
    if wanted == "integer" and kind == "number":
        return "" if value.is_integer() else "integer"
    return "" if kind == wanted or (wanted == "number" and kind == "integer") else str(wanted)


def _format_faults(value: Any, schema: Json, path: str) -> Iterator[Cause]:
    form = schema.get("format")
    if form in _RANGES and isinstance(value, int):
        low, high = _RANGES[form]
        if not low <= value <= high:
            yield invalid_value(path, value, f"{path} in body must be of type {form}")
    elif form == "date-time" and isinstance(value, str):
        try:
            datetime.fromisoformat(value)
        except ValueError:
            yield invalid_value(path, value, f'{path} in body must be of type date-time: "{value}"')


def _text_faults(value: str, schema: Json, path: str) -> Iterator[Cause]:
    pattern = schema.get("pattern")
    if pattern and not re.search(pattern, value):
        yield invalid_value(path, value, f"{path} in body should match '{pattern}'")
    if len(value) < schema.get("minLength", 0):
        why = f"{path} in body should be at least {schema['minLength']} chars long"
        yield invalid_value(path, value, why)
    if len(value) > schema.get("maxLength", len(value)):
        message = f"Too long: may not be more than {schema['maxLength']} bytes"
        yield Cause("FieldValueTooLong", message, path)


def _number_faults(value: float, schema: Json, path: str) -> Iterator[Cause]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        bound = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield invalid_value(path, value, f"{path} in body should be {bound} {low}")
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        bound = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield invalid_value(path, value, f"{path} in body should be {bound} {high}")
    if (step := schema.get("multipleOf")) and value % step:
        yield invalid_value(path, value, f"{path} in body should be a multiple of {step}")


def _list_faults(value: list[Any], schema: Json, path: str) -> Iterator[Cause]:
    if len(value) < schema.get("minItems", 0):
        why = f"{path} in body should have at least {schema['minItems']} items"
        yield invalid_value(path, len(value), why)
    if len(value) > schema.get("maxItems", len(value)):
        message = f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
        yield Cause("FieldValueTooMany", message, path)
    yield from _repeated(value, schema, path)
    for index, item in enumerate(value):
        yield from validate(item, schema.get("items") or {}, f"{path}[{index}]")


def _repeated(value: list[Any], schema: Json, path: str) -> Iterator[Cause]:
    match schema.get("x-kubernetes-list-type"):
        case "map":
            keys = schema.get("x-kubernetes-list-map-keys") or []
            marks = [
                {key: item.get(key) for key in keys} for item in value if isinstance(item, dict)
            ]
        case "set":
            marks = value
        case _:
            marks = value if schema.get("uniqueItems") else []
    for index, mark in enumerate(marks):
        if mark in marks[:index]:
            yield duplicate(f"{path}[{index}]", mark)


def _object_faults(value: Json, schema: Json, path: str) -> Iterator[Cause]:
    for name in schema.get("required") or ():
        if name not in value:
            yield required(_join(path, name))
    if len(value) < schema.get("minProperties", 0):
        why = f"{path} in body should have at least {schema['minProperties']} properties"
        yield invalid_value(path, value, why)
    if len(value) > schema.get("maxProperties", len(value)):
        message = f"Too many: {len(value)}: must have at most {schema['maxProperties']} items"
        yield Cause("FieldValueTooMany", message, path)
    for name, item in value.items():
        if name == "metadata" and not path:
            continue
        if (inner := _inner(schema, name)) is not None:
            yield from validate(item, inner, _join(path, name))


def _combined_faults(value: Any, schema: Json, path: str) -> Iterator[Cause]:
    for part in schema.get("allOf") or ():
        yield from validate(value, part, path)
    if (parts := schema.get("anyOf")) and not any(_fits(value, part, path) for part in parts):
        yield invalid_value(
            path, value, f"{path} in body must validate at least one schema (anyOf)"
        )
    if parts := schema.get("oneOf"):
        fitting = sum(_fits(value, part, path) for part in parts)
        if fitting != 1:
            why = f"{path} in body must validate one and only one schema (oneOf)"
            yield invalid_value(path, value, f"{why}. Found {fitting} valid alternatives")
    if (part := schema.get("not")) is not None and _fits(value, part, path):
        yield invalid_value(path, value, f"{path} in body must not validate the schema (not)")


def _fits(value: Any, schema: Json, path: str) -> bool:
    return next(validate(value, schema, path), None) is None


_KEYWORDS: Mapping[str, type | tuple[type, ...]] = {
    "type": str,
    "format": str,
    "pattern": str,
    "properties": dict,
    "items": dict,
    "additionalProperties": (dict, bool),
    "not": dict,
    "allOf": list,
    "anyOf": list,
    "oneOf": list,
    "enum": list,
    "required": list,
    "x-kubernetes-list-map-keys": list,
    "minimum": (int, float),
    "maximum": (int, float),
    "multipleOf": (int, float),
    **dict.fromkeys(
        [f"{end}{what}" for end in ("min", "max") for what in ("Length", "Items", "Properties")],
        int,
    ),
}
_TYPES = ("array", "boolean", "integer", "number", "object", "string")


def schema_faults(schema: Any, path: str, *, partial: bool = False) -> Iterator[Cause]:
    """Return all errors of a schema. A `partial` one, below allOf or the like, needs no type."""
    if not isinstance(schema, dict):
        yield wrong_type(path, json_kind(schema), "must be of type object")
        return
    wrong = [
        name
        for name, wanted in _KEYWORDS.items()
        if name in schema and not isinstance(schema[name], wanted)
    ]
    for name in wrong:
        yield wrong_type(f"{path}.{name}", json_kind(schema[name]), "has the wrong type")
    if wrong:
        return
    yield from _own_faults(schema, path, partial=partial)
    for where, inner in _subschemas(schema, path):
        yield from schema_faults(inner, where, partial=partial)
    for field in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(field) or ()):
            yield from schema_faults(inner, f"{path}.{field}[{index}]", partial=True)


def _own_faults(schema: Json, path: str, *, partial: bool) -> Iterator[Cause]:
    kind = schema.get("type")
    if kind is not None and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if not (kind or partial or schema.get(ANY) or schema.get(INT_OR_STRING)):
        yield required(f"{path}.type", "must not be empty for specified object fields")
    if kind == "array" and not schema.get("items"):
        yield required(f"{path}.items", "must be specified")
    if (pattern := schema.get("pattern")) is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            why = f"must be a valid regular expression: {error}"
            yield invalid_value(f"{path}.pattern", pattern, why)


def _subschemas(schema: Json, path: str) -> Iterable[tuple[str, Any]]:
    for name, inner in (schema.get("properties") or {}).items():
        if name != "metadata":
            yield f"{path}.properties[{name}]", inner
    for field in ("items", "additionalProperties"):
        if isinstance(inner := schema.get(field), dict) and inner:
            yield f"{path}.{field}", inner

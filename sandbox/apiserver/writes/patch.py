"""JSON patch (RFC 6902), JSON merge patch (RFC 7386), and strategic merge patch, which merges lists by the keys of their items."""

from collections.abc import Mapping
from typing import Any

from jsonpatch import JsonPatch, JsonPatchException, JsonPointerException

from sandbox.apiserver.errors import ApiError, bad_request
from sandbox.apiserver.storage.objects import Json

_DOES_NOT_APPLY = "the server rejected our request due to an error in our request"
# The merge key of each list, by the list's name or, if ambiguous, by its parent's and its own.
_MERGE_KEYS: Mapping[str, str] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
    "containers.ports": "containerPort",
    "initContainers.ports": "containerPort",
    "spec.ports": "port",
}
_MERGED_SETS = frozenset({"finalizers", "podCIDRs"})
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def merge_patch(target: Any, patch: Any) -> Any:
    """Return the target with a merge patch applied; neither is changed."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def json_patch(target: Any, operations: Any) -> Any:
    """Return the target with a JSON patch applied; the target is not changed. Raises a 400 or 422."""
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: a JSON patch is an array of operations")
    if not all(isinstance(operation, dict) for operation in operations):
        raise bad_request("error decoding patch: an operation is an object")
    try:
        return JsonPatch(operations).apply(target)
    except (JsonPatchException, JsonPointerException) as error:
        # A real server does not tell clients which operation failed or why.
        raise ApiError(422, "Invalid", _DOES_NOT_APPLY) from error


def strategic_merge_patch(target: Json, patch: Any) -> Json:
    """Return the target with a strategic merge patch applied; neither is changed."""
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: a strategic merge patch is an object")
    return _merge_map(target, patch, "")


def _merge_map(target: Json, patch: Json, name: str) -> Json:
    match patch.get("$patch"):
        case "replace":
            return {field: value for field, value in patch.items() if field != "$patch"}
        case "delete":
            return {}
        case None | "merge":
            pass
        case other:
            raise bad_request(f"unknown patch type: {other}")
    merged = dict(target)
    if (retained := patch.get("$retainKeys")) is not None:
        merged = {field: value for field, value in merged.items() if field in retained}
    for field, value in patch.items():
        if not field.startswith("$"):
            _merge_field(merged, field, value, name)
    _finish_lists(merged, patch, name)
    return merged


def _merge_field(merged: Json, field: str, value: Any, parent: str) -> None:
    current = merged.get(field)
    if value is None:
        merged.pop(field, None)
    elif isinstance(value, dict):
        merged[field] = _merge_map(current if isinstance(current, dict) else {}, value, field)
    elif isinstance(value, list):
        merged[field] = _merge_list(current or [], value, parent, field)
    else:
        merged[field] = value


def _merge_list(current: list[Any], patch: list[Any], parent: str, field: str) -> list[Any]:
    if field in _MERGED_SETS:
        return [*current, *(item for item in patch if item not in current)]
    key = _key(parent, field)
    if key is None:
        return patch
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    merged = list(current)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        _merge_item(merged, item, key, field)
    return merged


def _merge_item(merged: list[Any], item: Json, key: str, field: str) -> None:
    places = [index for index, have in enumerate(merged) if have.get(key) == item[key]]
    if item.get("$patch") == "delete":
        for index in reversed(places):
            del merged[index]
    elif places:
        merged[places[0]] = _merge_map(merged[places[0]], item, field)
    else:
        merged.append(_merge_map({}, item, field))


def _finish_lists(merged: Json, patch: Json, parent: str) -> None:
    """Apply the directives $deleteFromPrimitiveList and $setElementOrder."""
    for directive, values in patch.items():
        if directive.startswith(_DELETE_FROM):
            field = directive.removeprefix(_DELETE_FROM)
            merged[field] = [item for item in merged.get(field) or () if item not in values]
        elif directive.startswith(_ORDER) and merged.get(field := directive.removeprefix(_ORDER)):
            merged[field] = _ordered(merged[field], values, _key(parent, field))


def _ordered(items: list[Any], order: list[Any], key: str | None) -> list[Any]:
    def mark(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    # Items that the order does not name keep their position among their neighbours.
    places = {mark(item): index for index, item in enumerate(order)}
    named = iter(sorted((i for i in items if mark(i) in places), key=lambda i: places[mark(i)]))
    return [next(named) if mark(item) in places else item for item in items]


def _key(parent: str, field: str) -> str | None:
    return _MERGE_KEYS.get(f"{parent}.{field}") or _MERGE_KEYS.get(field)

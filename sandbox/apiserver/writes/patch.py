"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386)."""

from typing import Any

from jsonpatch import JsonPatch, JsonPatchException, JsonPointerException

from sandbox.apiserver.errors import ApiError, bad_request

_DOES_NOT_APPLY = "the server rejected our request due to an error in our request"


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

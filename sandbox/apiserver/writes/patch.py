"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386)."""

import copy
from collections.abc import Sequence
from typing import Any

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
    """Return the target with a JSON patch applied; the target is not changed."""
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: a JSON patch is an array of operations")
    document = copy.deepcopy(target)
    for operation in operations:
        if not isinstance(operation, dict):
            raise bad_request("error decoding patch: an operation is an object")
        document = _apply(document, operation)
    return document


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    path = _pointer(operation, "path")
    match operation.get("op"):
        case "add":
            return _add(document, path, _value(operation))
        case "remove":
            return _remove(document, path)
        case "replace":
            _get(document, path)
            return _replace(document, path, _value(operation))
        case "move":
            moved = _get(document, source := _pointer(operation, "from"))
            return _add(_remove(document, source), path, moved)
        case "copy":
            return _add(document, path, copy.deepcopy(_get(document, _pointer(operation, "from"))))
        case "test":
            if _get(document, path) != _value(operation):
                raise _unprocessable(f"testing path {operation['path']} failed")
            return document
        case other:
            raise _unprocessable(f"Unexpected kind: {other}")


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise _unprocessable(f"operation {operation.get('op')} has no value")
    return operation["value"]


def _pointer(operation: dict[str, Any], field: str) -> list[str]:
    text = operation.get(field)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _unprocessable(f"{field} is not a JSON pointer: {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _get(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(part, len(document) - 1)]
        else:
            raise _missing(path)
    return document


def _index(part: str, last: int) -> int:
    index = int(part) if part.isascii() and part.isdigit() else -1
    if not 0 <= index <= last:
        raise _unprocessable(f"Unable to access invalid index: {part}")
    return index


def _add(document: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif isinstance(parent, list):
        at = len(parent) if path[-1] == "-" else _index(path[-1], len(parent))
        parent.insert(at, value)
    else:
        raise _missing(path)
    return document


def _replace(document: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    parent[path[-1] if isinstance(parent, dict) else int(path[-1])] = value
    return document


def _remove(document: Any, path: Sequence[str]) -> Any:
    _get(document, path)
    if not path:
        return None
    parent = _get(document, path[:-1])
    del parent[path[-1] if isinstance(parent, dict) else int(path[-1])]
    return document


def _missing(path: Sequence[str]) -> ApiError:
    return _unprocessable(f"doc is missing path: /{'/'.join(path)}: missing value")


def _unprocessable(why: str) -> ApiError:
    # A real server does not tell clients which operation failed or why.
    error = ApiError(422, "Invalid", _DOES_NOT_APPLY)
    error.add_note(why)
    return error

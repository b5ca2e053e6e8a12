"""The parts of OpenAPI v3 that kubectl reads: kinds with server-side validation and dry run, and schemas of CRDs."""

import hashlib
from collections.abc import Iterable

from sandbox.apiserver.http.discovery import group_versions
from sandbox.apiserver.kinds.resource import Resource
from sandbox.apiserver.storage.objects import Json, encode

V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]
# Without strategic merge patch: kubectl would read merge keys from these schemas instead of its built-in ones.
_PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)


def document(path: list[str], resources: Iterable[Resource]) -> Json | None:
    """Return the document of /openapi/v3 or of a version below; None if the version does not exist."""
    match path:
        case []:
            return _index(resources)
        case ["api", version]:
            return _version("", version, resources)
        case ["apis", group, version]:
            return _version(group, version, resources)
        case _:
            return None


def _index(resources: Iterable[Resource]) -> Json:
    """Return the index: the path of each version's document."""
    listed = list(resources)
    paths = {}
    for group, versions in group_versions(listed).items():
        for version in versions:
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            digest = hashlib.sha256(encode(_version(group, version, listed))).hexdigest()[:32]
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def _version(group: str, version: str, resources: Iterable[Resource]) -> Json | None:
    served = [r for r in resources if (r.group, r.version) == (group, version)]
    if not served:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.32.0"},
        "paths": {path: item for resource in served for path, item in _paths(resource)},
        "components": {"schemas": dict(_schema(resource) for resource in served)},
    }


def _paths(resource: Resource) -> Iterable[tuple[str, Json]]:
    prefix = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{prefix}{scope}/{resource.plural}"
    yield collection, {"post": _operation(resource, "post", ("application/json",))}
    yield (
        f"{collection}/{{name}}",
        {
            "put": _operation(resource, "put", ("application/json",)),
            "patch": _operation(resource, "patch", _PATCHES),
        },
    )


def _operation(resource: Resource, verb: str, media_types: Iterable[str]) -> Json:
    return {
        "parameters": _PARAMETERS,
        "requestBody": {"content": {media_type: {"schema": {}} for media_type in media_types}},
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": verb,
        "x-kubernetes-group-version-kind": _identity(resource),
    }


def _identity(resource: Resource) -> Json:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _schema(resource: Resource) -> tuple[str, Json]:
    reverse = ".".join(reversed(resource.group.split("."))) if resource.group else "core"
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        **((resource.schema or {}).get("properties") or {}),
    }
    described = {**(resource.schema or {"type": "object"}), "properties": properties}
    described["x-kubernetes-group-version-kind"] = [_identity(resource)]
    return f"{reverse}.{resource.version}.{resource.kind}", described

"""Discovery documents: versions, groups and resources, legacy and aggregated."""

from collections.abc import Iterable, Mapping
from typing import Any

from sandbox.apiserver.kinds.resource import VERBS, Resource
from sandbox.apiserver.storage.objects import Json

VERSION: Mapping[str, str] = {
    "major": "1",
    "minor": "32",
    "gitVersion": "v1.32.0+plimsoll-sandbox",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
# Subresources whose objects have another kind than the resource.
_KINDS: Mapping[str, tuple[str, str, str]] = {
    "scale": ("autoscaling", "v1", "Scale"),
    "eviction": ("policy", "v1", "Eviction"),
    "binding": ("", "v1", "Binding"),
}
_DISCOVERY_GROUP = "apidiscovery.k8s.io"
_AGGREGATED = frozenset({"v2", "v2beta1"})
_CREATED = frozenset({"eviction", "binding"})


def group_versions(resources: Iterable[Resource]) -> dict[str, list[str]]:
    """Return the versions of each group, in the order of the resources."""
    groups: dict[str, list[str]] = {}
    for resource in resources:
        versions = groups.setdefault(resource.group, [])
        if resource.version not in versions:
            versions.append(resource.version)
    return groups


def document(
    path: list[str], resources: Iterable[Resource], aggregated_groups: Iterable[Json] = ()
) -> Json | None:
    """Return the document of /api, /apis, or a group or version below; None if the group or version does not exist.

    `aggregated_groups`: groups that other programs answer for, as listed by /apis.
    """
    match path:
        case ["api"]:
            return _legacy_versions()
        case ["apis"]:
            return _group_list(resources, aggregated_groups)
        case ["api", version]:
            return _resource_list("", version, resources)
        case ["apis", group]:
            return _one_group(group, _groups(resources, aggregated_groups))
        case ["apis", group, version]:
            return _resource_list(group, version, resources)
        case _:
            return None


def _legacy_versions() -> Json:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def _groups(resources: Iterable[Resource], aggregated_groups: Iterable[Json]) -> list[Json]:
    own = [_group(name, versions) for name, versions in group_versions(resources).items() if name]
    return [*own, *aggregated_groups]


def _group_list(resources: Iterable[Resource], aggregated_groups: Iterable[Json]) -> Json:
    groups = _groups(resources, aggregated_groups)
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _one_group(name: str, groups: Iterable[Json]) -> Json | None:
    named = next((group for group in groups if group["name"] == name), None)
    return None if named is None else {"kind": "APIGroup", "apiVersion": "v1", **named}


def _group(name: str, versions: list[str]) -> Json:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resource_list(group: str, version: str, resources: Iterable[Resource]) -> Json | None:
    served = [r for r in resources if (r.group, r.version) == (group, version)]
    if not served:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].api_version,
        "resources": [entry for resource in served for entry in _entries(resource)],
    }


def _entries(resource: Resource) -> Iterable[Json]:
    yield {
        "name": resource.plural,
        "singularName": _singular(resource),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(VERBS),
        **_optional(shortNames=resource.short_names, categories=resource.categories),
    }
    for subresource in resource.subresources:
        group, version, kind = _KINDS.get(subresource, ("", "", resource.kind))
        yield {
            "name": f"{resource.plural}/{subresource}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind,
            "verbs": _verbs(subresource),
            **_optional(group=group, version=version),
        }


def _verbs(subresource: str) -> list[str]:
    return ["create"] if subresource in _CREATED else ["get", "patch", "update"]


def _singular(resource: Resource) -> str:
    return resource.singular or resource.kind.lower()


def _optional(**fields: Any) -> Json:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in fields.items()
        if value
    }


def accepted(accept: str) -> str:
    """Return the version of aggregated discovery that an Accept header prefers; empty for the legacy documents.

    As kube-apiserver: the highest q-value counts, of equal ones the first. client-go 0.26 to 0.29 accepts v2beta1 only.
    """
    ranges = [_media_range(part) for part in accept.split(",")]
    for quality, kind, given in sorted(ranges, key=lambda part: -part[0]):
        if quality <= 0 or kind not in {"application/json", "application/*", "*/*"}:
            continue
        if "as" not in given:
            return ""
        wanted = (given.get("g"), given["as"])
        if wanted == (_DISCOVERY_GROUP, "APIGroupDiscoveryList") and given.get("v") in _AGGREGATED:
            return given["v"]
    return ""


def _media_range(text: str) -> tuple[float, str, dict[str, str]]:
    """Return the q-value, the type and the parameters of one range of an Accept header."""
    kind, *parameters = (part.strip() for part in text.split(";"))
    given = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
    try:
        return float(given.pop("q", "1")), kind, given
    except ValueError:
        return 0.0, kind, given


def content_type(version: str) -> str:
    """Return the media type of aggregated discovery in a version."""
    return f"application/json;g={_DISCOVERY_GROUP};v={version};as=APIGroupDiscoveryList"


def aggregated(resources: Iterable[Resource], version: str, *, legacy: bool) -> Json:
    """Return the aggregated discovery document in a version of apidiscovery.k8s.io; v2beta1 and v2 have the same fields."""
    listed = [resource for resource in resources if (resource.group == "") is legacy]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{_DISCOVERY_GROUP}/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name} if name else {},
                "versions": [
                    {
                        "version": served,
                        "freshness": "Current",
                        "resources": [
                            _discovered(resource)
                            for resource in listed
                            if (resource.group, resource.version) == (name, served)
                        ],
                    }
                    for served in versions
                ],
            }
            for name, versions in group_versions(listed).items()
        ],
    }


def _discovered(resource: Resource) -> Json:
    return {
        "resource": resource.plural,
        "responseKind": _response_kind(resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": _singular(resource),
        "verbs": list(VERBS),
        **_optional(shortNames=resource.short_names, categories=resource.categories),
        "subresources": [
            {
                "subresource": subresource,
                "responseKind": _response_kind(
                    *_KINDS.get(subresource, (resource.group, resource.version, resource.kind))
                ),
                "verbs": _verbs(subresource),
            }
            for subresource in resource.subresources
        ],
    }


def _response_kind(group: str, version: str, kind: str) -> Json:
    return {"group": group, "version": version, "kind": kind}

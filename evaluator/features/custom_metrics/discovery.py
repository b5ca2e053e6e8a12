"""Writes the discovery documents of custom.metrics.k8s.io: aggregated (v2) and legacy lists, and a constant OpenAPI.

Aggregated discovery: https://github.com/kubernetes/api/blob/master/apidiscovery/v2/types.go. Every resource has one scope:
kube-apiserver drops the whole group if `nodes/a` is cluster-scoped and `nodes/b` namespaced.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from evaluator.features.custom_metrics.formats import GROUP, NODES, PODS, ROOT, VERSIONS

JSON = "application/json"
_AGGREGATED = ("v2", "v2beta1")
"""Versions of aggregated discovery: kube-apiserver 1.26 to 1.29 requests v2beta1."""
_SCOPES = ((NODES, "Cluster"), (PODS, "Namespaced"))
_PATHS = frozenset({"/apis", ROOT, *(f"{ROOT}/{version}" for version in VERSIONS)})
_KIND = "MetricValueList"
_NO_KIND = {"group": "", "version": "", "kind": ""}
"""The parent of subresources is no resource itself; without any kind, client-go 0.26.0 to 0.26.3 panics."""


@dataclass(frozen=True, slots=True)
class Document:
    """A response's body, type and entity tag."""

    body: bytes
    content_type: str
    etag: str


class Discovery:
    """The documents for these metrics, in this order; each is made when it is first requested."""

    def __init__(self, metrics: Sequence[str]) -> None:
        self.metrics = tuple(metrics)
        self._made: dict[tuple[str, str], Document] = {}

    def find(self, path: str, accept: str) -> Document:
        """Return the document at a path for an Accept header. Raises KeyError unless `is_discovery(path)`."""
        if path in OPENAPI:
            return OPENAPI[path]
        path = path.rstrip("/")
        if path not in _PATHS:
            raise KeyError(path)
        aggregated = _requested(accept) if path == "/apis" else ""
        if (path, aggregated) not in self._made:
            self._made[path, aggregated] = (
                _document(_group_discovery(aggregated, self.metrics), _aggregated_type(aggregated))
                if aggregated
                else _document(_legacy(path, self.metrics))
            )
        return self._made[path, aggregated]


def is_discovery(path: str) -> bool:
    """Return whether a discovery document is at a path, whatever the metrics are."""
    return path in OPENAPI or path.rstrip("/") in _PATHS


def unchanged(document: Document, if_none_match: str) -> bool:
    """Return whether an If-None-Match header names the document's entity tag."""
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return document.etag in tags or tags == ["*"]


def _requested(accept: str) -> str:
    """Return the first version of aggregated discovery that an Accept header names and that is written here, or nothing."""
    for media_range in accept.split(","):
        kind, *parameters = (part.strip() for part in media_range.split(";"))
        given = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
        wanted = (given.get("g"), given.get("as"))
        if kind == JSON and wanted == ("apidiscovery.k8s.io", "APIGroupDiscoveryList"):
            version = given.get("v", "")
            if version in _AGGREGATED:
                return version
    return ""


def _aggregated_type(version: str) -> str:
    return f"{JSON};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


def _group_discovery(version: str, metrics: Sequence[str]) -> dict[str, Any]:
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": GROUP},
                "versions": [
                    {
                        "version": served,
                        "resources": [_resource(*scope, served, metrics) for scope in _SCOPES]
                        if metrics
                        else [],
                        "freshness": "Current",
                    }
                    for served in VERSIONS
                ],
            }
        ],
    }


def _resource(name: str, scope: str, version: str, metrics: Sequence[str]) -> dict[str, Any]:
    kind = {"group": GROUP, "version": version, "kind": _KIND}
    return {
        "resource": name,
        "responseKind": _NO_KIND,
        "scope": scope,
        "singularResource": "",
        "verbs": [],
        "subresources": [
            {"subresource": metric, "responseKind": kind, "verbs": ["get"]} for metric in metrics
        ],
    }


def _legacy(path: str, metrics: Sequence[str]) -> dict[str, Any]:
    versions = [{"groupVersion": f"{GROUP}/{version}", "version": version} for version in VERSIONS]
    group = {"name": GROUP, "versions": versions, "preferredVersion": versions[0]}
    if path == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}
    if path == ROOT:
        return {"kind": "APIGroup", "apiVersion": "v1", **group}
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": path.removeprefix("/apis/"),
        "resources": [
            {
                "name": f"{resource}/{metric}",
                "singularName": "",
                "namespaced": scope == "Namespaced",
                "kind": _KIND,
                "verbs": ["get"],
            }
            for resource, scope in _SCOPES
            for metric in metrics
        ],
    }


def _document(content: Mapping[str, Any], content_type: str = JSON) -> Document:
    body = msgspec.json.encode(content) + b"\n"
    return Document(body, content_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def _openapi() -> dict[str, Document]:
    """Return OpenAPI documents without paths: kube-apiserver logs an error each minute for a service that has none."""
    info = {"title": "Plimsoll custom metrics", "version": "unversioned"}
    documents = {"/openapi/v2": _document({"swagger": "2.0", "info": info, "paths": {}})}
    index = {}
    for version in VERSIONS:
        path = f"/openapi/v3{ROOT}/{version}"
        documents[path] = _document({"openapi": "3.0.0", "info": info, "paths": {}})
        tag = documents[path].etag.strip('"')
        index[f"{ROOT}/{version}".removeprefix("/")] = {"serverRelativeURL": f"{path}?hash={tag}"}
    documents["/openapi/v3"] = _document({"paths": index})
    return documents


OPENAPI: Mapping[str, Document] = _openapi()

"""The resources of the API server that the evaluator reads and writes: kinds to list and watch, and paths."""

import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

_PAGE = 250
"""Objects per page: 3 MB at 12 KB per node, split in about a millisecond."""
_POLICIES_PAGE = 20
"""Policies per page. An object may have 1.5 MiB."""


@dataclass(frozen=True, slots=True)
class APIResource:
    """A kind of object to list and watch; cluster-wide unless its path has a namespace.

    `unserved`: what to do if the API server does not serve it.
    """

    name: str
    path: str
    label_selector: str = ""
    field_selector: str = ""
    unserved: str = ""
    page: int = _PAGE
    """Objects per page of a list."""

    @property
    def selection(self) -> dict[str, str]:
        """The selectors as query parameters."""
        return {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}


NODES = APIResource("nodes", "/api/v1/nodes")
POLICIES = APIResource(
    "taspolicies",
    "/apis/telemetry.intel.com/v1alpha1/taspolicies",
    unserved="TASPolicy CRD is not installed; run `kubectl apply -k deploy/crd`",
    page=_POLICIES_PAGE,
)
LINKED_PODS = APIResource("pods", "/api/v1/pods", label_selector="telemetry-policy")
ALL_PODS = APIResource("all pods", "/api/v1/pods")


def pods_path(namespace: str) -> str:
    """Return the path of a namespace's pods."""
    return f"/api/v1/namespaces/{segment(namespace)}/pods"


def events_path(namespace: str) -> str:
    """Return the path of a namespace's Events."""
    return f"/api/v1/namespaces/{segment(namespace)}/events"


def leases_path(namespace: str) -> str:
    """Return the path of a namespace's Leases."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{segment(namespace)}/leases"


def config_maps_path(namespace: str) -> str:
    """Return the path of a namespace's ConfigMaps."""
    return f"/api/v1/namespaces/{segment(namespace)}/configmaps"


def config_map(namespace: str, name: str) -> APIResource:
    """Return one ConfigMap, to list and watch: with the right to this one."""
    fields = f"metadata.name={name}"
    return APIResource(f"ConfigMap {name}", config_maps_path(namespace), field_selector=fields)


def secrets_path(namespace: str) -> str:
    """Return the path of a namespace's Secrets."""
    return f"/api/v1/namespaces/{segment(namespace)}/secrets"


def secret(namespace: str, name: str) -> APIResource:
    """Return one Secret, to list and watch: with the right to this one."""
    fields = f"metadata.name={name}"
    return APIResource(f"Secret {name}", secrets_path(namespace), field_selector=fields)


def placed(collection: str, body: Mapping[str, Any]) -> tuple[str, str]:
    """Return method and path to create an object, or to replace one that was read."""
    meta = body["metadata"]
    if meta.get("resourceVersion"):
        return "PUT", f"{collection}/{segment(meta['name'])}"
    return "POST", collection


def segment(name: str) -> str:
    """Return a name as one segment of a path."""
    return urllib.parse.quote(name, safe="")


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list; `more` is the continue token of the next, empty at the end."""

    items: list[msgspec.Raw]
    resource_version: str
    more: str


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ObjectList(msgspec.Struct):
    """A list as the API server sends it, with its objects undecoded."""

    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None

"""Paths of the API server's resources."""

import urllib.parse
from collections.abc import Mapping
from typing import Any


def pods(namespace: str) -> str:
    """Return the path of a namespace's pods."""
    return f"/api/v1/namespaces/{segment(namespace)}/pods"


def events(namespace: str) -> str:
    """Return the path of a namespace's Events."""
    return f"/api/v1/namespaces/{segment(namespace)}/events"


def leases(namespace: str) -> str:
    """Return the path of a namespace's Leases."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{segment(namespace)}/leases"


def config_maps(namespace: str) -> str:
    """Return the path of a namespace's ConfigMaps."""
    return f"/api/v1/namespaces/{segment(namespace)}/configmaps"


def placed(collection: str, body: Mapping[str, Any]) -> tuple[str, str]:
    """Return method and path to create an object, or to replace one that was read."""
    meta = body["metadata"]
    if meta.get("resourceVersion"):
        return "PUT", f"{collection}/{segment(meta['name'])}"
    return "POST", collection


def segment(name: str) -> str:
    """Return a name as one segment of a path."""
    return urllib.parse.quote(name, safe="")

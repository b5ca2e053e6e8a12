"""Kubernetes objects as plain JSON, and where each kind of them lives in an API. No I/O."""

from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
"""A Kubernetes object, as its JSON says it."""


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """Where the objects of one kind live."""

    plural: str
    api_version: str = "v1"
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of one object, or of the collection where no name is given."""
        if name and self.namespaced and not namespace:
            raise ValueError(f"{self.plural} {name!r}: which namespace?")
        root = "/apis" if "/" in self.api_version else "/api"
        within = ("namespaces", namespace) if self.namespaced and namespace else ()
        return "/".join(
            part
            for part in (root, self.api_version, *within, self.plural, name, subresource)
            if part
        )


NAMESPACES = ObjectKind("namespaces", namespaced=False)
NODES = ObjectKind("nodes", namespaced=False)
PODS = ObjectKind("pods")
EVENTS = ObjectKind("events")
DEPLOYMENTS = ObjectKind("deployments", "apps/v1")
REPLICASETS = ObjectKind("replicasets", "apps/v1")
LEASES = ObjectKind("leases", "coordination.k8s.io/v1")
CRDS = ObjectKind("customresourcedefinitions", "apiextensions.k8s.io/v1", namespaced=False)
POLICIES = ObjectKind("taspolicies", "telemetry.intel.com/v1alpha1")


def key_of(obj: Object) -> str:
    """`namespace/name`, or the name of what has no namespace."""
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])

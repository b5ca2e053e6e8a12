"""Kubernetes objects as plain JSON, and the API path of each kind. No I/O."""

from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
"""A Kubernetes object as decoded from JSON."""


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """The API path and name of one kind."""

    plural: str
    api_version: str = "v1"
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of one object, or of the collection without a name."""
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
BUDGETS = ObjectKind("poddisruptionbudgets", "policy/v1")
LEASES = ObjectKind("leases", "coordination.k8s.io/v1")
SECRETS = ObjectKind("secrets")
CRDS = ObjectKind("customresourcedefinitions", "apiextensions.k8s.io/v1", namespaced=False)
POLICIES = ObjectKind("taspolicies", "telemetry.intel.com/v1alpha1")


def in_namespace(obj: Object, namespace: str) -> Object:
    """Return an object with a namespace."""
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}


def key_of(obj: Object) -> str:
    """Return `namespace/name`, or the name of a cluster-scoped object."""
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])

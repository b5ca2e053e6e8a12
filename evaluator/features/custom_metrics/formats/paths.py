"""Parses request paths of custom.metrics.k8s.io into what they request.

Paths as in custom-metrics-apiserver:pkg/apiserver/installer; attributes as kube-apiserver's RequestInfo resolves them, so
that both authorize the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

GROUP = "custom.metrics.k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
"""The preferred one first."""
ROOT = f"/apis/{GROUP}"

EVERY = "*"
"""The name that requests all objects."""
NODES, PODS, NAMESPACES = "nodes", "pods", "namespaces"


@dataclass(frozen=True, slots=True)
class MetricRequest:
    """A request for one metric of one object, or of all objects of a resource.

    `resource` may be qualified by a group: `deployments.apps`. `name` is EVERY for all objects. `namespace` is empty in
    paths without one. For a metric of a namespace itself, `resource` is NAMESPACES and `name` the namespace.
    """

    version: str
    resource: str
    name: str
    metric: str
    namespace: str = ""

    @property
    def every(self) -> bool:
        """Whether all objects are requested."""
        return self.name == EVERY

    @property
    def described(self) -> str:
        """The object or objects in words, as in custom-metrics-apiserver's errors: `nodes` or `nodes n1`."""
        return self.resource if self.every else f"{self.resource} {self.name}"


def parse(segments: Sequence[str]) -> MetricRequest | None:
    """Return the request that a path makes for a metric; None for any other path. `segments`: decoded, below the group's root."""
    if not all(segments):
        return None
    match segments:
        case [version, *_] if version not in VERSIONS:
            return None
        case [version, resource, name, metric] if resource != NAMESPACES:
            return MetricRequest(version, _unqualified(resource), name, metric)
        case [version, "namespaces", namespace, "metrics", metric]:
            return MetricRequest(version, NAMESPACES, namespace, metric, namespace)
        case [version, "namespaces", namespace, resource, name, metric]:
            return MetricRequest(version, _unqualified(resource), name, metric, namespace)
        case _:
            return None


def _unqualified(resource: str) -> str:
    """Return a resource of the core group without the dot that a client may append, as in `nodes.`."""
    return resource.removesuffix(".")

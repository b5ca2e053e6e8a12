"""The registry of served resources: a table of built-in ones, and those of CRDs; and the conversion of Events.

Events are stored as core/v1, and also served as events.k8s.io/v1.
"""

from collections.abc import Iterable, Iterator

from sandbox.apiserver.kinds.apiservices import APIServices
from sandbox.apiserver.kinds.behaviour import (
    NamedByRule,
    Namespaces,
    Nodes,
    Quotas,
    Secrets,
    Services,
)
from sandbox.apiserver.kinds.crds import CustomResourceDefinitions
from sandbox.apiserver.kinds.disruption import PodDisruptionBudgets
from sandbox.apiserver.kinds.pods import Pods
from sandbox.apiserver.kinds.resource import Conversion, Resource
from sandbox.apiserver.kinds.workloads import Deployments, ReplicaSets
from sandbox.apiserver.storage.objects import Json

_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_CORE_NAMES = {new: old for old, new in _EVENT_NAMES.items()}


def _to_core(event: Json) -> Json:
    """Convert an events.k8s.io/v1 Event to core/v1."""
    return {_CORE_NAMES.get(field, field): value for field, value in event.items()} | {
        "apiVersion": "v1"
    }


def _from_core(event: Json) -> Json:
    """Convert a core/v1 Event to events.k8s.io/v1."""
    renamed = {_EVENT_NAMES.get(field, field): value for field, value in event.items()}
    return renamed | {"apiVersion": "events.k8s.io/v1"}


_EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source.component",
    "type",
)


_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_EVENTS = Conversion("events", _to_core, _from_core)
_SCALABLE = ("status", "scale")
_STATUS = ("status",)
_SCHEDULING = "scheduling.k8s.io"
_CRDS = "apiextensions.k8s.io"

BUILT_IN = (
    Resource("", "v1", "namespaces", "Namespace", namespaced=False, short_names=("ns",), subresources=_STATUS, fields=("status.phase",), behaviour=Namespaces()),
    Resource("", "v1", "nodes", "Node", namespaced=False, short_names=("no",), subresources=_STATUS, fields=("spec.unschedulable",), behaviour=Nodes()),
    Resource("", "v1", "pods", "Pod", short_names=("po",), categories=("all",), subresources=("status", "binding", "eviction"), fields=_POD_FIELDS, behaviour=Pods()),
    Resource("", "v1", "events", "Event", short_names=("ev",), fields=_EVENT_FIELDS, behaviour=NamedByRule()),
    Resource("events.k8s.io", "v1", "events", "Event", short_names=("ev",), behaviour=NamedByRule(), conversion=_EVENTS),
    Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",)),
    Resource("", "v1", "resourcequotas", "ResourceQuota", short_names=("quota",), behaviour=Quotas()),
    Resource("", "v1", "secrets", "Secret", fields=("type",), behaviour=Secrets()),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",)),
    Resource("", "v1", "services", "Service", short_names=("svc",), categories=("all",), subresources=_STATUS, behaviour=Services()),
    Resource("apps", "v1", "deployments", "Deployment", short_names=("deploy",), categories=("all",), subresources=_SCALABLE, behaviour=Deployments()),
    Resource("apps", "v1", "replicasets", "ReplicaSet", short_names=("rs",), categories=("all",), subresources=_SCALABLE, behaviour=ReplicaSets()),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short_names=("pdb",), subresources=_STATUS, behaviour=PodDisruptionBudgets()),
    Resource(_SCHEDULING, "v1", "priorityclasses", "PriorityClass", namespaced=False, short_names=("pc",)),
    Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False, categories=("api-extensions",), subresources=_STATUS, behaviour=APIServices()),
    Resource(_CRDS, "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False, short_names=("crd", "crds"), categories=("api-extensions",), subresources=_STATUS, behaviour=CustomResourceDefinitions()),
)  # fmt: skip


class Registry:
    """The resources that are currently served."""

    def __init__(self, built_in: Iterable[Resource] = BUILT_IN) -> None:
        self._built_in = tuple(built_in)
        self._custom: dict[str, list[Resource]] = {}

    def define(self, crd: str, resources: list[Resource]) -> None:
        """Replace the resources of a CRD; an empty list removes them."""
        self._custom[crd] = resources

    def __iter__(self) -> Iterator[Resource]:
        yield from self._built_in
        for resources in self._custom.values():
            yield from resources

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource of a URL, or None."""
        return next(
            (r for r in self if (r.group, r.version, r.plural) == (group, version, plural)),
            None,
        )

    def by_collection(self, collection: str) -> Resource | None:
        """Return the resource whose version a collection is stored in."""
        return next((r for r in self if r.collection == collection and not r.conversion), None)

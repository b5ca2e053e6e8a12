"""The fields of Kubernetes objects that the evaluator reads; other fields are skipped, not decoded.

Strings are interned: thousands of nodes repeat the same label keys and values.
"""

import json
import math
import re
from collections.abc import Sequence
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple

import msgspec

from evaluator.model import resources
from evaluator.model.names import EXTENDER_RESOURCE
from evaluator.model.node_labels import FIELD_MANAGER, NodeLabels
from evaluator.model.resources import Allocatable, ExtendedResources
from evaluator.model.usage_metrics import ANNOTATIONS
from plimsoll import rfc3339

REQUEUED_AT = "plimsoll.io/nudged-at"
"""The annotation that requeues a pod: the time of the requeue, RFC 3339."""


class _OwnedMeta(msgspec.Struct):
    labels: dict[str, Any] | None = msgspec.field(default=None, name="f:labels")


class _OwnedStatus(msgspec.Struct):
    conditions: dict[str, msgspec.Raw] | None = msgspec.field(default=None, name="f:conditions")


class _OwnedFields(msgspec.Struct):
    metadata: _OwnedMeta | None = msgspec.field(default=None, name="f:metadata")
    status: _OwnedStatus | None = msgspec.field(default=None, name="f:status")


class ManagedFields(msgspec.Struct, rename="camel"):
    """The labels that one field manager owns: https://kubernetes.io/docs/reference/using-api/server-side-apply/."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fields_v1: _OwnedFields | None = msgspec.field(default=None, name="fieldsV1")

    @property
    def labels(self) -> frozenset[str]:
        """The label keys in `{"f:metadata": {"f:labels": {"f:<key>": {}}}}`."""
        metadata = self.fields_v1 and self.fields_v1.metadata
        fields = (metadata and metadata.labels) or ()
        return frozenset(intern(field[2:]) for field in fields if field.startswith("f:"))

    @property
    def conditions(self) -> frozenset[str]:
        """The condition types in `{"f:status": {"f:conditions": {"k:{\\"type\\":\\"<type>\\"}": {}}}}`."""
        status = self.fields_v1 and self.fields_v1.status
        found = map(_condition_type, (status and status.conditions) or ())
        return frozenset(intern(kind) for kind in found if kind)

    def ours(self, subresource: str = "") -> bool:
        """Whether the entry is an apply of our field manager."""
        found = (self.manager, self.operation, self.subresource)
        return found == (FIELD_MANAGER, "Apply", subresource)


def _condition_type(key: str) -> str:
    """Return the type in a key such as `k:{"type":"Ready"}`; empty for anything else."""
    try:
        found = json.loads(key.removeprefix("k:"))
    except ValueError:
        return ""
    kind = found.get("type") if isinstance(found, dict) else None
    return kind if isinstance(kind, str) else ""


class ObjectMeta(msgspec.Struct, rename="camel"):
    """ObjectMeta. Managed fields, the larger half of many objects, are reduced to the labels and conditions we own."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None
    managed_fields: list[ManagedFields] | None = None
    owned_labels: frozenset[str] = frozenset()
    owned_conditions: frozenset[str] = frozenset()
    """Types of the conditions that we applied, for a node."""
    figures: tuple[float, ...] | None = None
    """Numeric annotations of a node, see NodeMeta."""

    def __post_init__(self) -> None:
        if self.labels:
            self.labels = {intern(key): intern(value) for key, value in self.labels.items()}
        if self.managed_fields is not None:
            ours = (entry.labels for entry in self.managed_fields if entry.ours())
            self.owned_labels = frozenset[str]().union(*ours)
            states = (e.conditions for e in self.managed_fields if e.ours("status"))
            self.owned_conditions = frozenset[str]().union(*states)
            self.managed_fields = None


class Taint(msgspec.Struct):
    """core/v1 Taint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(msgspec.Struct):
    """core/v1 Toleration; an empty key with Exists tolerates every key, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class NodeCondition(NamedTuple):
    """One condition of a node, without its message; times are Unix seconds, None if unknown.

    `since`: last transition. `at`: last write of the reporter, by its heartbeat or transition.
    """

    type: str
    status: str
    reason: str = ""
    since: float | None = None
    at: float | None = None


class _ReportedCondition(msgspec.Struct, rename="camel"):
    """core/v1 NodeCondition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None
    last_heartbeat_time: str | None = None

    @property
    def reduced(self) -> NodeCondition:
        since = rfc3339.parse_or_none(self.last_transition_time)
        at = rfc3339.parse_or_none(self.last_heartbeat_time)
        if at is None or (since is not None and since > at):
            at = since
        kind, reason = intern(self.type), intern(self.reason)
        return NodeCondition(kind, intern(self.status), reason, since, at)


class NodeSpec(msgspec.Struct):
    """core/v1 NodeSpec."""

    unschedulable: bool = False
    taints: list[Taint] | None = None


class Address(msgspec.Struct):
    """One address of a node."""

    type: str = ""
    address: str = ""


class NodeStatus(msgspec.Struct):
    """core/v1 NodeStatus, reduced to the conditions, the addresses and the allocatable resources.

    `resource_vector` has the resources of RESOURCES, `others` the extended resources.
    """

    conditions: Sequence[NodeCondition] = msgspec.field(default=(), name="conditionsReduced")
    addresses: list[Address] | None = None
    allocatable: dict[str, Any] | None = None
    resource_vector: Allocatable | None = None
    others: ExtendedResources = ()
    reported: list[_ReportedCondition] | None = msgspec.field(default=None, name="conditions")
    """The conditions as decoded; None afterwards."""

    def __post_init__(self) -> None:
        if self.reported is not None:
            self.conditions = tuple(condition.reduced for condition in self.reported)
            self.reported = None
        if self.allocatable is not None:
            self.resource_vector = resources.allocatable(self.allocatable)
            self.others = resources.allocatable_extended(self.allocatable)
            self.allocatable = None


_LEAVING = frozenset(
    {
        "DrainInProgress",
        "Drained",
        "GracefulNodeShutdownInProgress",
        "MaintenanceInProgress",
        "MaintenancePlanned",
    }
)

_NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,3})?", re.ASCII)


class NodeMeta(ObjectMeta, rename="camel"):
    """ObjectMeta of a node; of its annotations, the numbers that scorers read are kept.

    `figures` has them in the order of ANNOTATIONS; `math.nan` if absent or not a number.
    """

    annotations: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.annotations is not None:
            if any(key in self.annotations for key in ANNOTATIONS):
                self.figures = tuple(_figure(self.annotations.get(key)) for key in ANNOTATIONS)
            self.annotations = None


@lru_cache(maxsize=4096)
def _number(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        return math.nan
    found = float(text)
    return found if math.isfinite(found) else math.nan


def _figure(text: object) -> float:
    plausible = isinstance(text, str) and len(text) < 100  # bounds the cache
    return _number(text) if plausible else math.nan


class Node(msgspec.Struct):
    """core/v1 Node."""

    metadata: NodeMeta
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)

    @property
    def node_labels(self) -> NodeLabels:
        """The labels, and which of them we own."""
        return NodeLabels(self.metadata.uid, self.metadata.labels or {}, self.metadata.owned_labels)

    def older_than(self, other: "Node") -> bool:
        """Return whether this is an earlier state of the node; false if the resource versions are not comparable."""
        mine, others = self.metadata.resource_version, other.metadata.resource_version
        return _comparable(mine) and _comparable(others) and int(mine) < int(others)

    @property
    def placement(self) -> tuple[Any, ...]:
        """The fields that decide which pods the node is feasible for."""
        return (self.ready_status, self.spec, self.metadata.labels)

    @property
    def leaving(self) -> bool:
        """Whether the node is being drained or shut down, or soon will be: https://kep.k8s.io/5683."""
        return any(c.type in _LEAVING and c.status == "True" for c in self.status.conditions)

    @property
    def acted_on(self) -> tuple[Any, ...]:
        """The fields with taints and conditions, and which conditions we own."""
        return (self.spec.taints, self.status.conditions, self.metadata.owned_conditions)

    @property
    def figures(self) -> tuple[Any, ...]:
        """Allocatable resources and the annotations that scorers read."""
        return (self.status.resource_vector, self.status.others, self.metadata.figures)

    @property
    def ready_status(self) -> str:
        """The status of the Ready condition: True, False or Unknown; empty without the condition."""
        return next((c.status for c in self.status.conditions if c.type == "Ready"), "")


def _comparable(version: str) -> bool:
    """Return whether a resource version is a 64-bit number, as etcd's are."""
    return version.isascii() and version.isdigit() and len(version) <= 20


class Requirement(msgspec.Struct):
    """core/v1 NodeSelectorRequirement."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class NodeSelectorTerm(msgspec.Struct, rename="camel"):
    """core/v1 NodeSelectorTerm: all requirements must match."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(msgspec.Struct, rename="camel"):
    """core/v1 NodeSelector: any term must match."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class NodeAffinity(msgspec.Struct):
    """core/v1 NodeAffinity; only the required terms."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(msgspec.Struct, rename="camel"):
    """core/v1 Affinity; only the node affinity."""

    node_affinity: NodeAffinity | None = None


class PodMeta(ObjectMeta, rename="camel"):
    """ObjectMeta of a pod; only the requeue annotation is kept, since annotations can be as large as the pod."""

    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.annotations is not None:
            self.annotations = {k: v for k, v in self.annotations.items() if k == REQUEUED_AT}


class PodCondition(msgspec.Struct):
    """One condition of a pod's status, with the scheduler's message."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Resources(msgspec.Struct):
    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class _Container(msgspec.Struct):
    resources: _Resources | None = None

    @property
    def requests_extender(self) -> bool:
        """Whether kube-scheduler calls the extender for it: any amount counts, in requests or limits."""
        found = self.resources or _Resources()
        return any(EXTENDER_RESOURCE in (part or ()) for part in (found.requests, found.limits))


class SchedulingGate(msgspec.Struct):
    """core/v1 PodSchedulingGate."""

    name: str = ""


class PodSpec(msgspec.Struct, rename="camel"):
    """core/v1 PodSpec: placement constraints, gates and priority. Of the containers, only `requests_extender` is kept."""

    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    priority: int = 0
    scheduler_name: str = "default-scheduler"
    scheduling_gates: list[SchedulingGate] | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    requests_extender: bool = False
    """Whether a container requests the resource for which kube-scheduler calls the extender."""

    def __post_init__(self) -> None:
        containers = (*(self.containers or ()), *(self.init_containers or ()))
        if containers:
            self.requests_extender = any(one.requests_extender for one in containers)
            self.containers = self.init_containers = None


class PodStatus(msgspec.Struct):
    """core/v1 PodStatus; only the PodScheduled condition is kept."""

    phase: str = ""
    conditions: list[PodCondition] | None = None

    def __post_init__(self) -> None:
        if self.conditions is not None:
            self.conditions = [c for c in self.conditions if c.type == "PodScheduled"] or None


class Pod(msgspec.Struct):
    """core/v1 Pod."""

    metadata: PodMeta
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    def __str__(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def placement(self) -> tuple[Any, ...]:
        """All fields that matter for eviction and requeueing; everything except the version."""
        meta = self.metadata
        identity = (meta.uid, meta.labels, meta.annotations, meta.deletion_timestamp)
        return (*identity, self.spec, self.status)

    @property
    def running(self) -> bool:
        """Whether the pod is bound, not finished and not being deleted."""
        done = self.status.phase in {"Succeeded", "Failed"}
        return bool(self.spec.node_name) and not done and self.metadata.deletion_timestamp is None

    @property
    def waiting(self) -> bool:
        """Whether the pod is pending without a node and not being deleted."""
        pending = self.status.phase in {"", "Pending"}
        return pending and not self.spec.node_name and self.metadata.deletion_timestamp is None

    @property
    def active(self) -> bool:
        """Whether the pod is running or waiting."""
        return self.running or self.waiting

    @property
    def unschedulable_because(self) -> str:
        """The scheduler's message if it found no node on its last attempt; otherwise empty."""
        for condition in self.status.conditions or ():
            if (condition.type, condition.reason) == ("PodScheduled", "Unschedulable"):
                return condition.message if condition.status == "False" else ""
        return ""

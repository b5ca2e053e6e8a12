"""The fields of core/v1 Pod that the core and most features read; other fields are skipped, not decoded.

Features that require all pods read more: `evaluator.core.model.pod_spec_view`.
"""

from collections.abc import Iterable
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple

import msgspec

from evaluator.core.model import requests
from evaluator.core.model.apart import NOTHING_APART, Apart, apart
from evaluator.core.model.names import EXTENDER_RESOURCE, ObjectMeta
from evaluator.core.model.pod_spec_view import Container, OwnerReference, Requests, host_ports
from evaluator.core.model.resources import NOTHING, ResourceVector

REQUEUED_AT = "plimsoll.io/nudged-at"
"""The annotation that requeues a pod: the time of the requeue, RFC 3339."""
MIRROR = "kubernetes.io/config.mirror"
"""The kubelet's annotation of a static pod's mirror."""
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
_ANNOTATIONS = frozenset({REQUEUED_AT, MIRROR, SAFE_TO_EVICT, DO_NOT_DISRUPT})
"""The annotations that are kept: all together can be as large as the pod."""
_NO_JSON = msgspec.Raw()
_LONGEST_VALUE = 100
"""Characters that are kept of the value of one: each is a time, a hash or a boolean."""


class Toleration(msgspec.Struct):
    """core/v1 Toleration; an empty key with Exists tolerates every key, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


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
    """core/v1 Affinity; only the node affinity is kept, and anti-affinity in `PodSpec.apart`."""

    node_affinity: NodeAffinity | None = None
    pod_anti_affinity: msgspec.Raw = msgspec.Raw(b"null")


class _Claim(msgspec.Struct, rename="camel"):
    claim_name: str = ""


class Volume(msgspec.Struct, rename="camel"):
    """core/v1 Volume; only a claim."""

    persistent_volume_claim: _Claim | None = None


class Owner(NamedTuple):
    """The controller of a pod."""

    kind: str
    name: str
    uid: str


@lru_cache(1 << 12)
def _shared(kind: str, name: str, uid: str) -> Owner:
    """Return equal owners as one object."""
    return Owner(intern(kind), name, uid)


def controller_of(references: Iterable[OwnerReference]) -> Owner | None:
    """Return the owner that controls a pod; None if none does."""
    found = next((one for one in references if one.controller), None)
    return _shared(found.kind, found.name, found.uid) if found is not None else None


class PodMeta(ObjectMeta, rename="camel"):
    """ObjectMeta of a pod. Of the annotations and the owners only those are kept that the evaluator reads."""

    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    owner_references: list[OwnerReference] | None = None
    controller: Owner | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.annotations is not None:
            kept = _ANNOTATIONS & self.annotations.keys()
            self.annotations = {key: self.annotations[key][:_LONGEST_VALUE] for key in kept}
        if self.owner_references is not None:
            self.controller = controller_of(self.owner_references)
            self.owner_references = None


class PodCondition(msgspec.Struct, rename="camel"):
    """One condition of a pod's status, with the scheduler's message."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


def _requests_extender(container: Container) -> bool:
    """Return whether kube-scheduler calls the extender for a container: any amount counts, in requests or limits."""
    found = container.resources or Requests()
    return any(EXTENDER_RESOURCE in (part or ()) for part in (found.requests, found.limits))


class SchedulingGate(msgspec.Struct):
    """core/v1 PodSchedulingGate."""

    name: str = ""


class PodSpec(msgspec.Struct, rename="camel"):
    """core/v1 PodSpec: placement constraints, gates and priority. Containers are reduced to what they request."""

    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    priority: int = 0
    scheduler_name: str = "default-scheduler"
    scheduling_gates: list[SchedulingGate] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    topology_spread_constraints: msgspec.Raw = msgspec.Raw()
    volumes: list[Volume] | None = None
    apart: Apart = NOTHING_APART
    """What keeps the pod apart from others."""
    overhead: dict[str, Any] | None = None
    resources: Requests | None = None
    requests_extender: bool = False
    """Whether a container requests the resource for which kube-scheduler calls the extender."""
    requests: ResourceVector = NOTHING
    """The effective request, of RESOURCES; malformed quantities count as 0."""

    def __post_init__(self) -> None:
        containers = (*(self.containers or ()), *(self.init_containers or ()))
        self._set_apart(containers)
        if containers:
            self.requests_extender = any(map(_requests_extender, containers))
            self.requests = requests.of_spec(self, "").requests
            self.containers = self.init_containers = self.overhead = self.resources = None

    def _set_apart(self, containers: Iterable[Container]) -> None:
        """Reduce the fields about other pods, ports and volumes to `apart`."""
        anti_affinity = b""
        if self.affinity is not None:
            anti_affinity = bytes(self.affinity.pod_anti_affinity).removeprefix(b"null")
            node_affinity = self.affinity.node_affinity
            # Without what `apart` has, or equal node affinities would be different sets of feasible nodes.
            self.affinity = Affinity(node_affinity) if node_affinity is not None else None
        listens = host_ports(containers)
        claims = (one.persistent_volume_claim for one in self.volumes or ())
        names = (claim.claim_name for claim in claims if claim is not None)
        spread = bytes(self.topology_spread_constraints)
        if anti_affinity or spread or containers or self.volumes:
            self.apart = apart(anti_affinity, spread, listens, names)
        self.topology_spread_constraints, self.volumes = _NO_JSON, None


class PodStatus(msgspec.Struct, rename="camel"):
    """core/v1 PodStatus; only the PodScheduled condition is kept."""

    phase: str = ""
    conditions: list[PodCondition] | None = None
    nominated_node_name: str | None = None
    """Where kube-scheduler made room for the pod by preemption."""

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
        """All fields except the version."""
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
    def nominated_node(self) -> str:
        """The node on which kube-scheduler keeps room for the pod while it waits; empty if there is none."""
        return (self.status.nominated_node_name or "") if self.waiting else ""

    @property
    def bound_at(self) -> str | None:
        """When the pod was bound, RFC 3339; None if its status does not say."""
        for condition in self.status.conditions or ():
            if (condition.type, condition.status) == ("PodScheduled", "True"):
                return condition.last_transition_time
        return None

    @property
    def active(self) -> bool:
        """Whether the pod is running or waiting."""
        return self.running or self.waiting

    @property
    def failed_attempt(self) -> PodCondition | None:
        """The scheduler's condition if its last attempt did not place the pod; None if it reported no such attempt.

        Its reason is Unschedulable if nodes were filtered, SchedulerError if the attempt ended in an error: an extender
        that does not answer is one.
        """
        for condition in self.status.conditions or ():
            if (condition.type, condition.status) == ("PodScheduled", "False"):
                return condition if condition.reason != "SchedulingGated" else None
        return None

    @property
    def unschedulable_because(self) -> str:
        """The scheduler's message if it filtered all nodes on its last attempt; otherwise empty, also after an error."""
        found = self.failed_attempt
        return found.message if found and found.reason == "Unschedulable" else ""

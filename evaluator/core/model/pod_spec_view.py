"""The fields of core/v1 Pod that features need of all pods.

Decoded once per event and only if a feature requires all pods; the cached form is `evaluator.core.model.pod_record.PodRecord`.
Fields that few pods set stay undecoded JSON.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from evaluator.core.model.apart import ANY_ADDRESS, Apart, HostPort, others_apart

FINISHED = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod uses no resources."""
_INFEASIBLE = "Infeasible"


class Requests(msgspec.Struct):
    """core/v1 ResourceRequirements: quantities by resource, as text."""

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class ContainerPort(msgspec.Struct, rename="camel"):
    """core/v1 ContainerPort; only ports of the node."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class HasPorts(Protocol):
    """A container."""

    @property
    def ports(self) -> list[ContainerPort] | None:
        """Its ports."""
        ...


def host_ports(containers: Iterable[HasPorts]) -> Iterator[HostPort]:
    """Yield the host ports of containers."""
    for container in containers:
        for port in container.ports or ():
            if port.host_port:
                yield HostPort(port.host_port, port.protocol, port.host_ip or ANY_ADDRESS)


class Container(msgspec.Struct, rename="camel"):
    """core/v1 Container."""

    name: str = ""
    resources: Requests | None = None
    restart_policy: str | None = None
    ports: list[ContainerPort] | None = None

    @property
    def requests(self) -> dict[str, Any]:
        """Requests by resource."""
        return (self.resources and self.resources.requests) or {}

    @property
    def is_sidecar(self) -> bool:
        """Whether an init container is a sidecar."""
        return self.restart_policy == "Always"


class Gate(msgspec.Struct):
    """core/v1 PodSchedulingGate."""

    name: str = ""


class PodSpecFields(msgspec.Struct, rename="camel"):
    """core/v1 PodSpec."""

    node_name: str = ""
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: dict[str, Any] | None = None
    resources: Requests | None = None
    scheduling_gates: list[Gate] | None = None
    scheduling_group: dict[str, Any] | None = None
    workload_ref: dict[str, Any] | None = None
    node_selector: msgspec.Raw = msgspec.Raw()
    affinity: msgspec.Raw = msgspec.Raw()
    tolerations: msgspec.Raw = msgspec.Raw()

    @property
    def apart(self) -> Apart:
        """What keeps others from its node: its required anti-affinity and host ports."""
        containers = (*(self.containers or ()), *(self.init_containers or ()))
        return others_apart(bytes(self.affinity), host_ports(containers))


class PodConditionFields(msgspec.Struct, rename="camel"):
    """One condition of a pod's status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


class Terminated(msgspec.Struct, rename="camel"):
    """core/v1 ContainerStateTerminated."""

    exit_code: int = 0
    finished_at: str | None = None


class Waiting(msgspec.Struct):
    """core/v1 ContainerStateWaiting."""

    reason: str = ""


class ContainerState(msgspec.Struct):
    """core/v1 ContainerState."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, rename="camel"):
    """core/v1 ContainerStatus."""

    name: str = ""
    allocated_resources: dict[str, Any] | None = None
    resources: Requests | None = None
    restart_count: int = 0
    ready: bool = False
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class PodStatusFields(msgspec.Struct, rename="camel"):
    """core/v1 PodStatus."""

    phase: str = ""
    qos_class: str = ""
    resize: str = ""
    """Of Kubernetes 1.27 to 1.32; later ones have conditions instead."""
    allocated_resources: dict[str, Any] | None = None
    resources: Requests | None = None
    start_time: str | None = None
    conditions: list[PodConditionFields] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class OwnerReference(msgspec.Struct, rename="camel"):
    """meta/v1 OwnerReference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class PodMetadata(msgspec.Struct, rename="camel"):
    """ObjectMeta of a pod."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: msgspec.Raw = msgspec.Raw()
    owner_references: list[OwnerReference] | None = None
    deletion_timestamp: str | None = None
    creation_timestamp: str | None = None


class PodSpecView(msgspec.Struct):
    """core/v1 Pod."""

    metadata: PodMetadata
    spec: PodSpecFields = msgspec.field(default_factory=PodSpecFields)
    status: PodStatusFields = msgspec.field(default_factory=PodStatusFields)

    def __str__(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def kind(self) -> str:
        """The kind of workload, see `kind_of`."""
        return kind_of(self.metadata.labels or {}, self.metadata.name)

    @property
    def bound_at(self) -> str | None:
        """When the pod was bound, RFC 3339; for static pods, when the kubelet started it."""
        for condition in self.status.conditions or ():
            if (condition.type, condition.status) == ("PodScheduled", "True"):
                return condition.last_transition_time or self.status.start_time
        return self.status.start_time

    @property
    def is_resize_infeasible(self) -> bool:
        """Whether the kubelet refused the last change of requests: it stays in the spec without effect."""
        status = self.status
        return status.resize == _INFEASIBLE or any(
            condition.type == "PodResizePending" and condition.reason == _INFEASIBLE
            for condition in status.conditions or ()
        )

    @property
    def all_container_statuses(self) -> Iterator[ContainerStatus]:
        """The statuses of all containers, init containers first."""
        yield from self.status.init_container_statuses or ()
        yield from self.status.container_statuses or ()


decode = msgspec.json.Decoder(PodSpecView).decode


_KIND_LABELS = ("podtype", "app", "name")


def kind_of(labels: Mapping[str, str], name: str) -> str:
    """Return the kind of workload by kubeRL's rule: the label `podtype`, else `app`, else `name`, else the pod's name."""
    return next((kind for label in _KIND_LABELS if (kind := labels.get(label))), name)

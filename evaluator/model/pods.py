"""A pod as a user of resources and as one of a gang: the parts of core/v1 Pod that scorers and gangs look at.

It is decoded only where there are any, and to be looked at once: what is kept of each pod of a cluster is
`evaluator.cache.pods.Resident`. What few pods are asked about is left as the JSON that it came as.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from evaluator.model.gang_membership import ADMITTED

FINISHED = frozenset({"Succeeded", "Failed"})
"""Phases of pods that hold nothing any more."""


class Requests(msgspec.Struct):
    """core/v1 ResourceRequirements: quantities by resource, as they were written."""

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class Container(msgspec.Struct, rename="camel"):
    """core/v1 Container."""

    resources: Requests | None = None
    restart_policy: str | None = None

    @property
    def requests(self) -> dict[str, Any]:
        """What it asks for."""
        return (self.resources and self.resources.requests) or {}

    @property
    def stays(self) -> bool:
        """Whether it runs on beside the containers when it is an init container: a sidecar."""
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


class PodConditionFields(msgspec.Struct, rename="camel"):
    """One condition of a pod's status."""

    type: str = ""
    status: str = ""
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

    restart_count: int = 0
    ready: bool = False
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class PodStatusFields(msgspec.Struct, rename="camel"):
    """core/v1 PodStatus."""

    phase: str = ""
    qos_class: str = ""
    start_time: str | None = None
    conditions: list[PodConditionFields] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Annotations(msgspec.Struct):
    """Those annotations of a pod that are ours."""

    admitted: str | None = msgspec.field(default=None, name=ADMITTED)


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
    annotations: Annotations | None = None
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
        """What pods of its sort have in common."""
        return kind_of(self.metadata.labels or {}, self.metadata.name)

    @property
    def bound_at(self) -> str | None:
        """When it was given its node, RFC 3339; when a kubelet began with it, for one that no scheduler placed."""
        for condition in self.status.conditions or ():
            if (condition.type, condition.status) == ("PodScheduled", "True"):
                return condition.last_transition_time or self.status.start_time
        return self.status.start_time

    @property
    def containers_seen(self) -> Iterator[ContainerStatus]:
        """What its kubelet says of each container, init containers included."""
        yield from self.status.init_container_statuses or ()
        yield from self.status.container_statuses or ()


decode = msgspec.json.Decoder(PodSpecView).decode


_KIND_LABELS = ("podtype", "app", "name")


def kind_of(labels: Mapping[str, str], name: str) -> str:
    """What pods of a sort have in common, by kubeRL's rule: the label `podtype`, else `app`, else `name`, else its own name."""
    return next((kind for label in _KIND_LABELS if (kind := labels.get(label))), name)

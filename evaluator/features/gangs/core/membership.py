"""The gang membership of a pod, the gates that hold it, and the JSON patch that removes ours. Times are Unix seconds."""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.model.pod_spec_view import Gate
from evaluator.core.model.resources import ExtendedResources, ResourceVector

GATE = "plimsoll.io/gang"
"""The scheduling gate that holds a pod: https://kep.k8s.io/3521."""
ADMITTED = "plimsoll.io/admitted-at"
"""The annotation written when the gate is removed: RFC 3339 with milliseconds, in UTC.

A pod released because of its age does not get it: its gang would count as admitted.
"""

GROUP_LABEL = "podGroup"
MINIMUM_LABEL = "minAvailable"
GROUP_LABELS = (
    GROUP_LABEL,
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "pod-group.scheduling.sigs.k8s.io/name",
)
"""The spellings of scheduler-plugins' versions; the first that is not empty counts."""
MINIMUM_LABELS = (MINIMUM_LABEL, "pod-group.scheduling.sigs.k8s.io/min-available")
"""The first that is present counts. Groups of the second and third spelling state it in a PodGroup, which is not read."""
PRIORITY_LABEL = "groupPriority"

Operation = Mapping[str, Any]
"""An operation of a JSON patch (RFC 6902)."""

_ANNOTATIONS = "/metadata/annotations"
_GATES = "/spec/schedulingGates"


class QoS(IntEnum):
    """Quality of service classes, in the order in which gangs are admitted."""

    GUARANTEED = 0
    BURSTABLE = 1
    BEST_EFFORT = 2


class Owner(NamedTuple):
    """The controller of a pod; all fields are empty if it has none."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class PlacementConstraints(msgspec.Struct, frozen=True):
    """A pod's placement constraints as JSON; pods with equal constraints share one object."""

    constraints: bytes = b""


class Membership(msgspec.Struct, frozen=True, gc=False):
    """The membership of a pod that names a gang or has the gate. Its name, node, phase, requests and age are in PodRecord."""

    group: str = ""
    """The label `podGroup`; empty if the pod belongs to no gang."""
    minimum: int = 0
    """The label `minAvailable`; 0 if there is no gang: no group, no number, or 1 or less."""
    beside: str = ""
    """The label `podGroup` of a pod without a valid number of its own; it counts for the gang's other pods."""
    priority: int = 0
    """The label `groupPriority`, higher first; 0 if absent or invalid."""
    problems: tuple[str, ...] = ()
    """Problems of these labels, as sentences that do not name the pod."""
    qos: QoS = QoS.BEST_EFFORT
    owner: Owner = Owner()
    gated: bool = False
    """Whether the pod has the gang gate."""
    foreign: tuple[str, ...] = ()
    """Other scheduling gates of the pod."""
    admitted: float | None = None
    """When the pod was admitted; None if it never had the gate, still has it, or was released because of its age."""
    native: bool = False
    """Whether Kubernetes itself schedules the pod as part of a group (`spec.schedulingGroup`): such pods are neither held
    nor counted.
    """
    policy: PolicyKey | None = None
    """The pod's policy."""
    where: PlacementConstraints = PlacementConstraints()
    group_label: str = GROUP_LABEL
    """The spelling of `podGroup` that the pod uses."""

    @property
    def held(self) -> bool:
        """Whether the pod has any scheduling gate."""
        return self.gated or bool(self.foreign)


def membership_of(pod: PodRecord) -> Membership | None:
    """Return the membership of a cached pod; None for a pod that names no gang and does not have the gate."""
    membership: Membership | None = pod.extra
    return membership


class PodShape(NamedTuple):
    """The requests and constraints that decide where a pod fits."""

    requests: ResourceVector
    others: ExtendedResources
    where: PlacementConstraints
    policy: PolicyKey | None


def shapes(pods: Iterable[PodRecord]) -> Counter[PodShape]:
    """Return the number of pods of each shape."""
    return Counter(map(shape, pods))


def shape(pod: PodRecord) -> PodShape:
    """Return the shape of a pod."""
    about = membership_of(pod)
    where, policy = (about.where, about.policy) if about else (PlacementConstraints(), None)
    return PodShape(pod.requests, pod.others, where, policy)


class GatedPodMetadata(msgspec.Struct, rename="camel"):
    """The fields of a pod's ObjectMeta that the removal of its gate needs."""

    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class GatedPodSpec(msgspec.Struct, rename="camel"):
    """core/v1 PodSpec."""

    scheduling_gates: list[Gate] | None = None


class GatedPod(msgspec.Struct):
    """core/v1 Pod."""

    metadata: GatedPodMetadata = msgspec.field(default_factory=GatedPodMetadata)
    spec: GatedPodSpec = msgspec.field(default_factory=GatedPodSpec)


decode_gated = msgspec.json.Decoder(GatedPod).decode


def ungate_patch(pod: GatedPod, at: str | None) -> list[Operation]:
    """Return the patch that removes our gate and, unless `at` is None, annotates the pod with this time (RFC 3339).

    Tests in the patch make it fail if the uid, the labels or the position of the gate have changed. Raises ValueError for a pod
    without our gate.
    """
    path = f"{_GATES}/{[gate.name for gate in pod.spec.scheduling_gates or ()].index(GATE)}"
    return [
        _test("/metadata/uid", pod.metadata.uid),
        *(_test("/metadata/labels", labels) for labels in [pod.metadata.labels] if labels),
        _test(f"{path}/name", GATE),
        {"op": "remove", "path": path},
        *(_noting(pod.metadata, at) if at else ()),
    ]


def _noting(meta: GatedPodMetadata, at: str) -> list[Operation]:
    if meta.annotations:
        key = ADMITTED.replace("~", "~0").replace("/", "~1")
        return [{"op": "add", "path": f"{_ANNOTATIONS}/{key}", "value": at}]
    # "add" would replace annotations that were created meanwhile: the resourceVersion must be the same.
    return [
        _test("/metadata/resourceVersion", meta.resource_version),
        {"op": "add", "path": _ANNOTATIONS, "value": {ADMITTED: at}},
    ]


def _test(path: str, value: object) -> Operation:
    return {"op": "test", "path": path, "value": value}

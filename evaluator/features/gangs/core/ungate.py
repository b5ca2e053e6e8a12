"""Which pods a release still applies to, and the JSON patch that removes a pod's gate. No I/O."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from evaluator.core.model.pod_record import PodRecord
from evaluator.core.model.pod_spec_view import Gate
from evaluator.features.gangs.core.membership import ADMITTED, GATE
from evaluator.features.gangs.core.podgroup import PodGroup, about
from evaluator.features.gangs.core.types import GangReason, GangRelease

Operation = Mapping[str, Any]
"""An operation of a JSON patch (RFC 6902)."""

_ANNOTATIONS = "/metadata/annotations"
_GATES = "/spec/schedulingGates"


class GatedPodMetadata(msgspec.Struct, rename="camel"):
    """The fields of a pod's ObjectMeta that a patch needs."""

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


decode = msgspec.json.Decoder(GatedPod).decode


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


def due(release: GangRelease, gang: PodGroup) -> list[PodRecord]:
    """Return the pods that a release still applies to, given the gang now; empty if its reason no longer holds.

    They are in the order of the release; new pods come last.
    """
    order = {pod.uid: number for number, pod in enumerate(release.pods)}
    return sorted(_due(release, gang), key=lambda pod: order.get(pod.uid, len(order)))


def _due(release: GangRelease, gang: PodGroup) -> Iterable[PodRecord]:
    match release.reason:
        case GangReason.OVERDUE:
            meant = {pod.uid for pod in release.pods}
            return [pod for pod in gang.gated if pod.uid in meant]
        case GangReason.REPLACEMENT:
            owners = {about(pod).owner.uid for pod in release.pods}
            pods = [pod for pod in gang.releasable if about(pod).owner.uid in owners]
            return pods if gang.has_quorum(admitted=True) else ()
        case GangReason.ADMITTED:
            can_go = gang.existing - len(gang.foreign) >= gang.minimum
            return gang.releasable if gang.has_quorum(admitted=False) and can_go else ()

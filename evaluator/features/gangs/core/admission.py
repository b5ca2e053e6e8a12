"""Responses of the mutating webhook that adds our gate to new pods. No I/O.

Types: k8s.io/api/admission/v1 (AdmissionReview). A gate can only be set at creation, and not on a pod with a node. Pods are
never rejected, and gated ones stay unchanged, as the API server may send a pod twice. Problems with a pod's labels are returned
as warnings, which kubectl prints.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from evaluator.core.model.names import UNREADABLE
from evaluator.core.model.pod_spec_view import Gate
from evaluator.features.gangs.core import labels as gang_labels
from evaluator.features.gangs.core.membership import GATE, PRIORITY_LABEL
from plimsoll.text import SentenceError

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

Body = bytes | bytearray | memoryview

MOST_DELIMITERS = 256 << 10
"""In one review. A pod of 10 KB has some 2,500."""
_LONGEST_LIST = 64 << 10
"""Bytes of JSON for a pod's labels, and for its scheduling gates."""
_DELIMITERS = b'[]{}:,\\" \t\r\n'
_NULL = msgspec.Raw(b"null")
_OURS = Gate(GATE)


class BadReviewError(SentenceError, ValueError):
    """The body is no AdmissionReview of a pod; the message explains why."""


class Result(StrEnum):
    """What a response does to a pod."""

    GATED = "gated"
    """Our gate is added."""
    LEFT = "left"
    """The pod is unchanged: it needs no gate, cannot have one, or has it already."""


@dataclass(frozen=True, slots=True)
class AdmissionAnswer:
    """The encoded AdmissionReview, its result, and the pod as `<namespace>/<name>`."""

    pod: str
    result: Result
    body: bytes


class _PodMetadata(msgspec.Struct, rename="camel"):
    name: str = ""
    generate_name: str = ""
    labels: msgspec.Raw = _NULL


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    scheduling_gates: msgspec.Raw = _NULL
    scheduling_group: msgspec.Raw = _NULL
    workload_ref: msgspec.Raw = _NULL

    @property
    def native(self) -> bool:
        """Whether kube-scheduler schedules the pod as one of a group. Kubernetes 1.35 calls the field workloadRef."""
        return any(bytes(raw) != bytes(_NULL) for raw in (self.scheduling_group, self.workload_ref))


class _Object(msgspec.Struct):
    metadata: _PodMetadata = msgspec.field(default_factory=_PodMetadata)
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


@dataclass(frozen=True, slots=True)
class _Pod:
    name: str
    labels: dict[str, str]
    spec: _PodSpec
    gates: list[Gate]

    @property
    def numbers(self) -> gang_labels.Numbers:
        """The numbers in its gang labels."""
        return gang_labels.numbers(self.labels)

    @property
    def takes_turns(self) -> bool:
        """Whether it belongs to a gang or has the priority label, even with a value that is no number."""
        return PRIORITY_LABEL in self.labels or self.numbers.minimum > 0


class _GroupResource(msgspec.Struct):
    group: str = ""
    resource: str = ""


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    resource: _GroupResource = msgspec.field(default_factory=_GroupResource)
    sub_resource: str = ""
    operation: str = ""
    namespace: str = ""
    object: msgspec.Raw = _NULL

    @property
    def creates_pod(self) -> bool:
        """Whether the request is for the creation of a pod."""
        about = (self.resource.group, self.resource.resource, self.sub_resource, self.operation)
        return about == ("", "pods", "", "CREATE")


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


class _Response(msgspec.Struct, rename="camel", omit_defaults=True):
    uid: str
    allowed: bool  # no default: it is always said
    patch_type: str = ""
    patch: bytes = b""
    warnings: list[str] = []


class _Reply(msgspec.Struct, rename="camel"):
    response: _Response
    api_version: str = API_VERSION
    kind: str = KIND


_decode_review = msgspec.json.Decoder(_Review).decode
_decode_object = msgspec.json.Decoder(_Object).decode
_decode_labels = msgspec.json.Decoder(dict[str, str] | None).decode
_decode_gates = msgspec.json.Decoder(list[Gate] | None).decode
_encode = msgspec.json.Encoder().encode


def delimiters(part: Body) -> int:
    """Return the number of JSON delimiters, quotes, escapes and blanks: decoding time is proportional to it."""
    return len(part) - len(bytes(part).translate(None, _DELIMITERS))


def answer(body: Body) -> AdmissionAnswer:
    """Return the response to an AdmissionReview. Raises BadReviewError for any other body."""
    try:
        review = _decode_review(body)
        request = _request(review)
        pod = _pod(request.object) if request.creates_pod else None
    except UNREADABLE as error:
        raise BadReviewError(f"not an {KIND} of a pod: {error}") from error
    patch = _patch(pod) if pod else []
    return AdmissionAnswer(
        f"{request.namespace}/{pod.name if pod else ''}",
        Result.GATED if patch else Result.LEFT,
        _encode(_Reply(_response(request.uid, pod, patch))),
    )


def refusal(code: int, sentence: str) -> bytes:
    """Return a metav1 Status as the body of an HTTP error."""
    status = {"status": "Failure", "message": sentence, "code": code}
    return _encode({"apiVersion": "v1", "kind": "Status", **status})


def _request(review: _Review) -> _Request:
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise BadReviewError(f"not an {KIND} of {API_VERSION}")
    if review.request is None or not review.request.uid:
        raise BadReviewError(f"an {KIND} without a request, or a request without a uid")
    return review.request


def _pod(raw: msgspec.Raw) -> _Pod:
    pod = _decode_object(raw)
    meta, spec = pod.metadata, pod.spec
    labels = _decode_labels(_bounded(meta.labels, "labels")) or {}
    gates = _decode_gates(_bounded(spec.scheduling_gates, "scheduling gates")) or []
    return _Pod(meta.name or meta.generate_name, labels, spec, gates)


def _bounded(raw: msgspec.Raw, what: str) -> msgspec.Raw:
    if len(raw) > _LONGEST_LIST:
        raise BadReviewError(f"a pod with more than {_LONGEST_LIST} bytes of {what}")
    return raw


def _response(uid: str, pod: _Pod | None, patch: list[dict[str, Any]]) -> _Response:
    response = _Response(uid, allowed=True)
    if patch:
        response.patch_type, response.patch = "JSONPatch", _encode(patch)
    if pod and not pod.spec.native:
        response.warnings = [f"gangs: {problem}" for problem in pod.numbers.problems]
    return response


def _patch(pod: _Pod) -> list[dict[str, Any]]:
    """Return the JSON patch (RFC 6902) that adds our gate after existing ones; empty if the pod gets none."""
    if not pod.takes_turns or pod.spec.node_name or pod.spec.native or _OURS in pod.gates:
        return []
    path, value = (
        ("/spec/schedulingGates/-", _OURS) if pod.gates else ("/spec/schedulingGates", [_OURS])
    )
    return [{"op": "add", "path": path, "value": value}]

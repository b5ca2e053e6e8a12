"""Puts our gate on pods as they are created: what the API server asks of a mutating webhook, and what it is answered.

Types: k8s.io/api/admission/v1 (AdmissionReview). A gate can be set at creation alone, and not on a pod that has its node
already. No answer ever refuses a pod, and one of ours that is gated already stays as it is: the API server may ask twice.
What is wrong with a pod's labels goes back as a warning, which kubectl shows to whoever creates it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from evaluator.model import gang_labels
from evaluator.model.decode import UNREADABLE
from evaluator.model.gang_membership import GATE, PRIORITY_LABEL
from evaluator.model.pods import Gate
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
    """A body that asks about no object's admission; the text is for whoever configured the webhook."""


class Result(StrEnum):
    """What became of a pod."""

    GATED = "gated"
    """It is held until its gang may go."""
    LEFT = "left"
    """It is none that we would hold, or it cannot be held, or is already."""


@dataclass(frozen=True, slots=True)
class AdmissionAnswer:
    """What became of which pod, and the AdmissionReview that says so. `pod` is `<namespace>/<name>`."""

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
        """Whether kube-scheduler takes the pod for one of a group; in Kubernetes 1.35 the field had another name."""
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
        """What its labels say of its gang."""
        return gang_labels.numbers(self.labels)

    @property
    def takes_turns(self) -> bool:
        """Whether it belongs to a gang, or names a priority among those that wait, be it one that cannot be read."""
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
        """Whether the object is a pod that is about to be."""
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
    """How many brackets, commas, colons, quotes, escapes and blanks are in JSON: decoding takes time by these."""
    return len(part) - len(bytes(part).translate(None, _DELIMITERS))


def answer(body: Body) -> AdmissionAnswer:
    """The answer to an AdmissionReview. Raises BadReviewError for anything else."""
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
    """A Status of k8s.io/apimachinery/pkg/apis/meta/v1, as the body of an answer that is an HTTP error."""
    told = {"status": "Failure", "message": sentence, "code": code}
    return _encode({"apiVersion": "v1", "kind": "Status", **told})


def _request(review: _Review) -> _Request:
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise BadReviewError(f"not an {KIND} of {API_VERSION}")
    if review.request is None or not review.request.uid:
        raise BadReviewError(f"an {KIND} without a request, or a request without a uid")
    return review.request


def _pod(raw: msgspec.Raw) -> _Pod:
    found = _decode_object(raw)
    meta, spec = found.metadata, found.spec
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
    """The JSON patch (RFC 6902) that has our gate hold a pod, beside the gates of others; empty where it should not."""
    if not pod.takes_turns or pod.spec.node_name or pod.spec.native or _OURS in pod.gates:
        return []
    path, value = (
        ("/spec/schedulingGates/-", _OURS) if pod.gates else ("/spec/schedulingGates", [_OURS])
    )
    return [{"op": "add", "path": path, "value": value}]

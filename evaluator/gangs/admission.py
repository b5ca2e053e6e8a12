"""Puts our gate on pods as they are created: what the API server asks of a mutating webhook, and what it is answered.

Types: k8s.io/api/admission/v1 (AdmissionReview). A gate can be set at creation alone, and not on a pod that has its node
already. No answer ever refuses a pod, and one of ours that is gated already stays as it is: the API server may ask twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from evaluator.decoding import UNREADABLE
from evaluator.gangs.membership import GATE, GROUP_LABEL, MINIMUM_LABEL, PRIORITY_LABEL
from plimsoll.sentences import SentenceError

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

Body = bytes | bytearray | memoryview
_NULL = msgspec.Raw(b"null")


class BadReviewError(SentenceError, ValueError):
    """A body that asks about no object's admission; the text is for whoever configured the webhook."""


class Result(StrEnum):
    """What became of a pod."""

    GATED = "gated"
    """It is held until its gang may go."""
    LEFT = "left"
    """It is none that we would hold, or it cannot be held, or is already."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of which pod, and the AdmissionReview that says so. `pod` is `<namespace>/<name>`."""

    pod: str
    result: Result
    body: bytes


class _Gate(msgspec.Struct):
    name: str = ""


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    generate_name: str = ""
    labels: dict[str, str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    scheduling_gates: list[_Gate] | None = None
    scheduling_group: msgspec.Raw = _NULL


class _Pod(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Resource(msgspec.Struct):
    group: str = ""
    resource: str = ""


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    resource: _Resource = msgspec.field(default_factory=_Resource)
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


class _Reply(msgspec.Struct, rename="camel"):
    response: _Response
    api_version: str = API_VERSION
    kind: str = KIND


_decode_review = msgspec.json.Decoder(_Review).decode
_decode_pod = msgspec.json.Decoder(_Pod).decode
_encode = msgspec.json.Encoder().encode


def answer(body: Body) -> Answer:
    """The answer to an AdmissionReview. Raises BadReviewError for anything else."""
    try:
        review = _decode_review(body)
        request = _request(review)
        pod = _decode_pod(request.object) if request.creates_pod else None
    except UNREADABLE as error:
        raise BadReviewError(f"not an {KIND} of a pod: {error}") from error
    patch = _patch(pod) if pod else []
    meta = pod.metadata if pod else _Meta()
    return Answer(
        f"{request.namespace}/{meta.name or meta.generate_name}",
        Result.GATED if patch else Result.LEFT,
        _encode(_Reply(_response(request.uid, patch))),
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


def _response(uid: str, patch: list[dict[str, Any]]) -> _Response:
    if not patch:
        return _Response(uid, allowed=True)
    return _Response(uid, allowed=True, patch_type="JSONPatch", patch=_encode(patch))


def _patch(pod: _Pod) -> list[dict[str, Any]]:
    """The JSON patch (RFC 6902) that has our gate hold a pod, beside the gates of others; empty where it should not."""
    gates = pod.spec.scheduling_gates or []
    ours = {"name": GATE}
    if (
        pod.spec.node_name
        or bytes(pod.spec.scheduling_group) != bytes(_NULL)
        or ours["name"] in {one.name for one in gates}
        or not takes_turns(pod.metadata.labels or {})
    ):
        return []
    path, value = ("/spec/schedulingGates/-", ours) if gates else ("/spec/schedulingGates", [ours])
    return [{"op": "add", "path": path, "value": value}]


def takes_turns(labels: Mapping[str, str]) -> bool:
    """Whether a pod with these labels belongs to a gang, or names a priority among those that wait."""
    return PRIORITY_LABEL in labels or (
        bool(labels.get(GROUP_LABEL)) and _is_gang(labels.get(MINIMUM_LABEL, ""))
    )


def _is_gang(minimum: str) -> bool:
    # A label's value is no longer than 63 characters, and has no sign: it begins and ends with a letter or a digit.
    return minimum.isascii() and minimum.isdigit() and 1 < int(minimum[:64]) < 1 << 63

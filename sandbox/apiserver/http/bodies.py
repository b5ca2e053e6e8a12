"""Reads and parses request bodies: JSON, YAML, and Kubernetes protobuf, which `kubectl create <kind>` and `kubectl drain` send.

Of protobuf, only the messages of those commands are known, by field number. An unknown field is an error, so that no data is lost.
"""

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from aiohttp import web

from plimsoll import rfc3339, strictyaml
from sandbox.apiserver.errors import ApiError, bad_request, too_large, unsupported_media_type
from sandbox.apiserver.storage.objects import Json
from sandbox.apiserver.writes.writes import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

PROTOBUF = "application/vnd.kubernetes.protobuf"
LIMIT = 3 * 1024 * 1024
OBJECTS = ("application/json", "application/yaml", PROTOBUF)
PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
_YAML = frozenset({"application/yaml", APPLY_PATCH})
_MAGIC = b"k8s\x00"


def media_type(request: web.Request, allowed: tuple[str, ...]) -> str:
    """Return the media type of a body. Raises a 415 if it is not allowed."""
    if "Content-Type" not in request.headers and "application/json" in allowed:
        return "application/json"
    if request.content_type not in allowed:
        raise unsupported_media_type(allowed)
    return request.content_type


async def read(request: web.Request, form: str) -> Any:
    """Return the decoded body. Raises a 400 if it is malformed, a 413 if it is too large."""
    if (request.content_length or 0) > LIMIT:
        raise too_large(LIMIT)
    try:
        raw = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large(LIMIT) from error
    if form == PROTOBUF:
        return decode_protobuf(raw)
    return parse(raw, is_yaml=form in _YAML)


def parse(raw: bytes, *, is_yaml: bool) -> Any:
    """Return the value of a text. YAML is tried as JSON first, which is faster and what most clients send."""
    try:
        return json.loads(raw, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        if not is_yaml:
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    try:
        return strictyaml.load_json(raw)
    except strictyaml.MalformedError as error:
        raise bad_request(f"error decoding YAML: {error}") from error


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not valid JSON")


class Field(NamedTuple):
    """A field's JSON name and type: a scalar (`text`, `flag`, ...) or a message."""

    name: str
    type: str
    repeated: bool = False


def _message(text: str) -> dict[int, Field]:
    """Return the fields of `1 name text, 2 items* Item`; `*` marks repeated ones."""
    fields = {}
    for part in text.split(","):
        number, name, kind = part.split()
        fields[int(number)] = Field(name.rstrip("*"), kind, repeated=name.endswith("*"))
    return fields


# Go writes zero values too: 0 means unset for `count`, and 0 for `number`.
_MESSAGES: Mapping[str, dict[int, Field]] = {
    name: _message(text)
    for name, text in {
        "ObjectMeta": "1 name text, 2 generateName text, 3 namespace text, 4 selfLink text, 5 uid text, 6 resourceVersion text, 7 generation count, 8 creationTimestamp Time, 9 deletionTimestamp Time, 10 deletionGracePeriodSeconds number, 11 labels map:text, 12 annotations map:text, 13 ownerReferences* OwnerReference, 14 finalizers* text",
        "OwnerReference": "1 kind text, 3 name text, 4 uid text, 5 apiVersion text, 6 controller flag, 7 blockOwnerDeletion flag",
        "LabelSelector": "1 matchLabels map:text, 2 matchExpressions* Requirement",
        "Requirement": "1 key text, 2 operator text, 3 values* text",
        "Namespace": "1 metadata ObjectMeta, 2 spec NamespaceSpec, 3 status NamespaceStatus",
        "NamespaceSpec": "1 finalizers* text",
        "NamespaceStatus": "1 phase text",
        "ConfigMap": "1 metadata ObjectMeta, 2 data map:text, 3 binaryData map:bytes, 4 immutable flag",
        "Secret": "1 metadata ObjectMeta, 2 data map:bytes, 3 type text, 4 stringData map:text, 5 immutable flag",
        "ServiceAccount": "1 metadata ObjectMeta, 3 imagePullSecrets* LocalReference, 4 automountServiceAccountToken flag",
        "LocalReference": "1 name text",
        "PriorityClass": "1 metadata ObjectMeta, 2 value number, 3 globalDefault flag, 4 description text, 5 preemptionPolicy text",
        "PodDisruptionBudget": "1 metadata ObjectMeta, 2 spec BudgetSpec, 3 status BudgetStatus",
        "BudgetSpec": "1 minAvailable IntOrString, 2 selector LabelSelector, 3 maxUnavailable IntOrString, 4 unhealthyPodEvictionPolicy text",
        "BudgetStatus": "1 observedGeneration count, 3 disruptionsAllowed count, 4 currentHealthy count, 5 desiredHealthy count, 6 expectedPods count",
        "Service": "1 metadata ObjectMeta, 2 spec ServiceSpec, 3 status ServiceStatus",
        "ServiceSpec": "1 ports* ServicePort, 2 selector map:text, 3 clusterIP text, 4 type text, 5 externalIPs* text, 7 sessionAffinity text, 8 loadBalancerIP text, 10 externalName text, 11 externalTrafficPolicy text, 12 healthCheckNodePort count, 13 publishNotReadyAddresses flag, 18 clusterIPs* text",
        "ServicePort": "1 name text, 2 protocol text, 3 port number, 4 targetPort IntOrString, 5 nodePort count",
        "ServiceStatus": "1 loadBalancer Empty",
        "Empty": "1 ignored text",
        "Deployment": "1 metadata ObjectMeta, 2 spec DeploymentSpec, 3 status DeploymentStatus",
        "DeploymentSpec": "1 replicas number, 2 selector LabelSelector, 3 template PodTemplate, 4 strategy Strategy, 5 minReadySeconds count, 6 revisionHistoryLimit number, 7 paused flag, 9 progressDeadlineSeconds number",
        "DeploymentStatus": "1 observedGeneration count, 2 replicas count, 3 updatedReplicas count, 4 availableReplicas count, 5 unavailableReplicas count, 7 readyReplicas count",
        "Strategy": "1 type text, 2 rollingUpdate RollingUpdate",
        "RollingUpdate": "1 maxUnavailable IntOrString, 2 maxSurge IntOrString",
        "PodTemplate": "1 metadata ObjectMeta, 2 spec PodSpec",
        "PodSpec": "2 containers* Container, 3 restartPolicy text, 4 terminationGracePeriodSeconds number, 5 activeDeadlineSeconds number, 6 dnsPolicy text, 7 nodeSelector map:text, 8 serviceAccountName text, 9 serviceAccount text, 10 nodeName text, 11 hostNetwork flag, 12 hostPID flag, 13 hostIPC flag, 16 hostname text, 17 subdomain text, 19 schedulerName text, 20 initContainers* Container, 24 priorityClassName text",
        "Container": "1 name text, 2 image text, 3 command* text, 4 args* text, 5 workingDir text, 6 ports* Port, 7 env* EnvVar, 8 resources Resources, 13 terminationMessagePath text, 14 imagePullPolicy text, 16 stdin flag, 17 stdinOnce flag, 18 tty flag, 20 terminationMessagePolicy text",
        "Port": "1 name text, 2 hostPort count, 3 containerPort number, 4 protocol text, 5 hostIP text",
        "EnvVar": "1 name text, 2 value text",
        "Resources": "1 limits map:Quantity, 2 requests map:Quantity",
        "Eviction": "1 metadata ObjectMeta, 2 deleteOptions DeleteOptions",
        "DeleteOptions": "1 gracePeriodSeconds number, 2 preconditions Preconditions, 3 orphanDependents flag, 4 propagationPolicy text, 5 dryRun* text",
        "Preconditions": "1 uid text, 2 resourceVersion text",
    }.items()
}  # fmt: skip


def decode_protobuf(raw: bytes) -> Json:
    """Return the object of a protobuf body. Raises a 400 if it is truncated, a 415 for an unknown kind or field."""
    if not raw.startswith(_MAGIC):
        raise bad_request("the body does not start as Kubernetes protobuf does")
    try:
        envelope = _collected(raw[len(_MAGIC) :])
        type_meta = _collected(_last(envelope, 1))
        api_version, kind = (bytes(_last(type_meta, number)).decode() for number in (1, 2))
        if kind not in _MESSAGES:
            raise _unknown(f"kind {kind}")
        return {"apiVersion": api_version, "kind": kind, **_decode(_last(envelope, 2), kind)}
    except (IndexError, UnicodeDecodeError, TypeError) as error:
        raise bad_request(f"malformed protobuf: {error}") from error


def _unknown(what: str) -> ApiError:
    message = f"{what} is not supported in {PROTOBUF}; send application/json"
    return ApiError(415, "UnsupportedMediaType", message)


def _collected(raw: bytes) -> dict[int, list[Any]]:
    values_by_number: dict[int, list[Any]] = {}
    for number, value in _fields(raw):
        values_by_number.setdefault(number, []).append(value)
    return values_by_number


def _last(fields: dict[int, list[Any]], number: int) -> Any:
    return fields[number][-1] if number in fields else b""


def _fields(raw: bytes) -> Iterator[tuple[int, Any]]:
    """Return the raw fields of a message: numbers and bytes."""
    position = 0
    while position < len(raw):
        tag, position = _varint(raw, position)
        match tag & 7:
            case 0:
                value, position = _varint(raw, position)
                yield tag >> 3, value
            case 2:
                size, position = _varint(raw, position)
                if position + size > len(raw):
                    raise IndexError("cut short")
                yield tag >> 3, raw[position : position + size]
                position += size
            case wire_type:
                raise TypeError(f"wire type {wire_type}")


def _varint(raw: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _decode(raw: bytes, message: str) -> Json:
    known, decoded = _MESSAGES[message], {}
    for number, values in _collected(raw).items():
        if number not in known:
            raise _unknown(f"field {number} of {message}")
        field = known[number]
        value = _value(field, values)
        if value or field.type in {"number", "IntOrString"}:
            decoded[field.name] = value
    return decoded


def _value(field: Field, values: list[Any]) -> Any:
    if field.type.startswith("map:"):
        return dict(_pair(value, field.type.removeprefix("map:")) for value in values)
    if field.repeated:
        return [_one(value, field.type) for value in values]
    return _one(values[-1], field.type)


def _pair(raw: bytes, kind: str) -> tuple[str, Any]:
    fields = _collected(raw)
    return bytes(_last(fields, 1)).decode(), _one(_last(fields, 2), kind)


def _one(value: Any, kind: str) -> Any:
    scalar = _SCALARS.get(kind)
    return scalar(value) if scalar else _decode(value, kind)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _int_or_string(raw: bytes) -> int | str:
    fields = _collected(raw)
    if _last(fields, 1):
        return bytes(_last(fields, 3)).decode()
    return _signed(_last(fields, 2) or 0)


def _time(raw: bytes) -> str | None:
    seconds = _last(_collected(raw), 1)
    return rfc3339.seconds(_signed(seconds)) if seconds else None


_SCALARS: Mapping[str, Callable[[Any], Any]] = {
    "text": lambda value: value.decode(),
    "bytes": lambda value: base64.b64encode(value).decode(),
    "flag": bool,
    "number": _signed,
    "count": _signed,
    "Quantity": lambda value: bytes(_last(_collected(value), 1)).decode(),
    "IntOrString": _int_or_string,
    "Time": _time,
}

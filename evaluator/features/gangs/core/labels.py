"""Reads a pod's gang membership from its labels, gates, annotations and spec.

Labels are interpreted as by the scheduler plugin that defined them: without a group, or with a number that is absent,
invalid or at most 1, there is no gang; an invalid priority is 0. Invalid labels are also reported as problems.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, NamedTuple

import msgspec

from evaluator.core.model import feasibility, pod_record
from evaluator.core.model.names import POLICY_LABEL, PolicyKey
from evaluator.core.model.pod import Affinity, PodSpec, Toleration
from evaluator.core.model.pod_spec_view import PodMetadata, PodSpecView, Requests
from evaluator.core.model.pod_spec_view import PodSpecFields as WorkloadSpec
from evaluator.core.model.resources import Resource
from evaluator.features.gangs.core.membership import (
    ADMITTED,
    GATE,
    GROUP_LABEL,
    GROUP_LABELS,
    MINIMUM_LABEL,
    MINIMUM_LABELS,
    PRIORITY_LABEL,
    Membership,
    Owner,
    PlacementConstraints,
    QoS,
)
from plimsoll import quantity, rfc3339
from plimsoll.labels import int64
from plimsoll.text import shown

_MOST_CACHED_BYTES = 4096
"""Bytes of JSON; constraints of real workloads take a few hundred. Longer ones are not cached."""
_UNCONSTRAINED = feasibility.constraint_key(PodSpec())

_decode_selector = msgspec.json.Decoder(dict[str, str] | None).decode
_decode_affinity = msgspec.json.Decoder(Affinity | None).decode
_decode_tolerations = msgspec.json.Decoder(list[Toleration] | None).decode
_QOS_NAMES = {
    "Guaranteed": QoS.GUARANTEED,
    "Burstable": QoS.BURSTABLE,
    "BestEffort": QoS.BEST_EFFORT,
}
_DECISIVE = (Resource.CPU, Resource.MEMORY)
"""Other resources do not affect the class."""

_Amounts = dict[Resource, Fraction]


class Numbers(NamedTuple):
    """The numbers in a pod's labels, as in `Membership`; `group_label` and `group`: the label that names its group."""

    group_label: str
    group: str
    minimum: int
    priority: int
    problems: tuple[str, ...]


class _Annotations(msgspec.Struct):
    admitted: str | None = msgspec.field(default=None, name=ADMITTED)


_decode_annotations = msgspec.json.Decoder(_Annotations | None).decode


def membership(pod: PodSpecView) -> Membership | None:
    """Return a pod's gang membership.

    None for a pod that names no group, has no gang gate and was not admitted. Raises `evaluator.core.model.names.UNREADABLE`
    if its placement constraints cannot be decoded.
    """
    meta, spec = pod.metadata, pod.spec
    labels = meta.labels or {}
    gates = [gate.name for gate in spec.scheduling_gates or ()]
    gated = GATE in gates
    admitted_text = _admitted_text(pod)
    admitted = None if admitted_text is None else rfc3339.parse_or_none(admitted_text)
    # Hot path: most pods of a cluster return here.
    if not gated and admitted is None and not any(map(labels.get, GROUP_LABELS)):
        return None
    stated = numbers(labels)
    group = stated.group
    return Membership(
        group=group if stated.minimum else "",
        group_label=stated.group_label,
        minimum=stated.minimum,
        beside="" if stated.minimum else group,
        priority=stated.priority,
        problems=(*stated.problems, *_admitted_problems(admitted_text)),
        qos=qos_of(pod),
        owner=_owner(meta),
        gated=gated,
        foreign=tuple(gate for gate in gates if gate != GATE),
        admitted=None if gated else admitted,
        native=_is_native(spec),
        policy=_policy(meta.namespace, labels.get(POLICY_LABEL, "")),
        where=_where(bytes(spec.node_selector), bytes(spec.affinity), bytes(spec.tolerations)),
    )


decode = partial(pod_record.decode, extra=membership)
"""Returns the PodRecord of a Pod's JSON, with its membership; see `pod_record.decode`."""


def numbers(labels: Mapping[str, str]) -> Numbers:
    """Return the group, minimum and priority in a pod's labels, with their problems."""
    named = [label for label in GROUP_LABELS if labels.get(label)]
    group_label = named[0] if named else GROUP_LABEL
    problems = [*_conflicts(labels, named)]
    minimum = _minimum(labels, group_label, problems)
    priority = _number(labels, PRIORITY_LABEL, "it counts as 0", problems) or 0
    return Numbers(group_label, labels.get(group_label, ""), minimum, priority, tuple(problems))


def _minimum(labels: Mapping[str, str], group_label: str, problems: list[str]) -> int:
    stated = [label for label in MINIMUM_LABELS if label in labels]
    if not labels.get(group_label):
        if stated:
            problems.append(f"it has the label {stated[0]} and no {GROUP_LABEL}: no gang")
        return 0
    if not stated:
        unread = "" if group_label == GROUP_LABEL else " (PodGroup objects are not read)"
        problems.append(
            f"it has the label {group_label} and no {MINIMUM_LABEL}{unread}: it waits for no others, and counts for pods of the group that have one"
        )
        return 0
    problems.extend(_conflicts(labels, stated))
    number = _number(labels, stated[0], "no gang", problems) or 0
    return number if number > 1 else 0


def _conflicts(labels: Mapping[str, str], spellings: Sequence[str]) -> Iterable[str]:
    for other in spellings[1:]:
        if labels[other] != labels[spellings[0]]:
            yield f"its labels {spellings[0]} and {other} differ: the first counts"


def _number(
    labels: Mapping[str, str], label: str, consequence: str, problems: list[str]
) -> int | None:
    if (text := labels.get(label)) is None:
        return None
    if (number := int64.parse(text)) is None:
        problems.append(f"its label {label} is {shown(text)}, which is not a number: {consequence}")
    return number


def _admitted_text(pod: PodSpecView) -> str | None:
    if not (raw := pod.metadata.annotations):
        return None
    annotations = _decode_annotations(raw)
    return annotations.admitted if annotations else None


def _admitted_problems(text: str | None) -> Iterable[str]:
    if text is not None and rfc3339.parse_or_none(text) is None:
        yield f"its annotation {ADMITTED} is {shown(text)}, which is not a time: ignored"


def _owner(meta: PodMetadata) -> Owner:
    for owner in meta.owner_references or ():
        if owner.controller:
            return _shared_owner(owner.kind, owner.name, owner.uid, owner.api_version)
    return Owner()


@lru_cache(maxsize=4096)
def _shared_owner(kind: str, name: str, uid: str, api_version: str) -> Owner:
    """Cached, so that all pods of a controller share one object."""
    return Owner(kind, name, uid, api_version)


@lru_cache(maxsize=4096)
def _policy(namespace: str, name: str) -> PolicyKey | None:
    """Cached, so that all pods of a policy share one object."""
    return PolicyKey(namespace, name) if name else None


def _is_native(spec: WorkloadSpec) -> bool:
    """Return whether Kubernetes itself schedules the pod as part of a group; Kubernetes 1.35 used another field."""
    return spec.scheduling_group is not None or spec.workload_ref is not None


def _where(*parts: bytes) -> PlacementConstraints:
    """Return the placement constraints in the JSON of node selector, affinity and tolerations; empty if there are none.

    Equal constraints share one object. Long ones are not cached, so that hostile pods cannot fill the cache.
    """
    if sum(map(len, parts)) > _MOST_CACHED_BYTES:
        return PlacementConstraints(_constraints(*parts))
    return _shared_where(*parts)


@lru_cache(maxsize=4096)
def _shared_where(selector: bytes, affinity: bytes, tolerations: bytes) -> PlacementConstraints:
    return _shared_constraints(_constraints(selector, affinity, tolerations))


def _constraints(selector: bytes, affinity: bytes, tolerations: bytes) -> bytes:
    spec = PodSpec(
        node_selector=_decode_selector(selector or b"null"),
        affinity=_decode_affinity(affinity or b"null"),
        tolerations=_decode_tolerations(tolerations or b"null"),
    )
    constraints = feasibility.constraint_key(spec)
    return b"" if constraints == _UNCONSTRAINED else constraints


@lru_cache(maxsize=4096)
def _shared_constraints(constraints: bytes) -> PlacementConstraints:
    """Cached, so that equal constraints in different JSON share one object."""
    return PlacementConstraints(constraints)


def qos_of(pod: PodSpecView) -> QoS:
    """Return the class of a pod; invalid quantities count as absent."""
    known = _QOS_NAMES.get(pod.status.qos_class)
    return _computed(pod) if known is None else known


def _computed(pod: PodSpecView) -> QoS:
    spec = pod.spec
    parts = [spec.resources] if _is_set(spec.resources) else []
    if not parts:
        containers = (*(spec.init_containers or ()), *(spec.containers or ()))
        parts = [container.resources for container in containers]
    requests, limits, limited = _totals(part or Requests() for part in parts)
    if not requests and not limits:
        return QoS.BEST_EFFORT
    return QoS.GUARANTEED if limited and requests == limits else QoS.BURSTABLE


def _is_set(resources: Requests | None) -> bool:
    return bool(resources and (resources.requests or resources.limits))


def _totals(parts: Iterable[Requests]) -> tuple[_Amounts, _Amounts, bool]:
    """Return the sums of requests and of limits, and whether every part limits both resources."""
    requests: _Amounts = {}
    limits: _Amounts = {}
    limited = True
    for part in parts:
        _add(requests, _positive(part.requests))
        limit = _positive(part.limits)
        _add(limits, limit)
        limited = limited and len(limit) == len(_DECISIVE)
    return requests, limits, limited


def _add(total: _Amounts, more: _Amounts) -> None:
    for resource, value in more.items():
        total[resource] = total.get(resource, Fraction()) + value


def _positive(amounts: Mapping[str, Any] | None) -> _Amounts:
    values = {
        resource: _value(amounts[resource])
        for resource in _DECISIVE
        if amounts and resource in amounts
    }
    return {resource: value for resource, value in values.items() if value > 0}


def _value(text: object) -> Fraction:
    try:
        return quantity.exact(str(text))
    except ValueError:
        return Fraction()

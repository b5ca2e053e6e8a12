"""What a pod says of its gang, read out of its labels, its gates and its annotations.

Labels are read as the scheduler plugin does that they were made for: no group, no number, a number that cannot be read,
or one of 1 or less is no gang; a priority that cannot be read is 0. What cannot be read is told, all the same.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from evaluator.model import feasibility, qos
from evaluator.model.gang_membership import (
    ADMITTED,
    GATE,
    GROUP_LABEL,
    MINIMUM_LABEL,
    PRIORITY_LABEL,
    Membership,
    Owner,
    Where,
)
from evaluator.model.names import POLICY_LABEL, PolicyKey
from evaluator.model.objects import Affinity, PodSpec, Toleration
from evaluator.model.pods import PodMetadata, PodSpecView
from evaluator.model.pods import PodSpecFields as WorkloadSpec
from plimsoll import int64, rfc3339
from plimsoll.text import shown

_LONG = 4096
"""Bytes of JSON; what workloads ask of a node is some hundred."""
_NOWHERE_IN_PARTICULAR = feasibility.constraint_key(PodSpec())

_decode_selector = msgspec.json.Decoder(dict[str, str] | None).decode
_decode_affinity = msgspec.json.Decoder(Affinity | None).decode
_decode_tolerations = msgspec.json.Decoder(list[Toleration] | None).decode


class Numbers(NamedTuple):
    """The numbers in a pod's labels, as `Membership` has them."""

    minimum: int
    priority: int
    problems: tuple[str, ...]


def membership(pod: PodSpecView) -> Membership | None:
    """What a pod says of its gang.

    None for one that names no group, that our gate does not hold, and has not held. Raises what
    `evaluator.model.decode.UNREADABLE` names for a pod that asks of its node what cannot be read.
    """
    meta, spec = pod.metadata, pod.spec
    labels = meta.labels or {}
    gates = [gate.name for gate in spec.scheduling_gates or ()]
    gated = GATE in gates
    admitted = _admitted(pod)
    # Most pods of a cluster end here: this has to be quick.
    if not (group := labels.get(GROUP_LABEL, "")) and not gated and admitted is None:
        return None
    told = numbers(labels)
    return Membership(
        group=group if told.minimum else "",
        minimum=told.minimum,
        beside="" if told.minimum else group,
        priority=told.priority,
        problems=(*told.problems, *_broken_mark(pod)),
        qos=qos.of(pod),
        owner=_owner(meta),
        gated=gated,
        foreign=tuple(gate for gate in gates if gate != GATE),
        admitted=None if gated else admitted,
        native=_is_native(spec),
        policy=_policy(meta.namespace, labels.get(POLICY_LABEL, "")),
        where=_where(bytes(spec.node_selector), bytes(spec.affinity), bytes(spec.tolerations)),
    )


def numbers(labels: Mapping[str, str]) -> Numbers:
    """What the labels of a pod say of its gang."""
    problems: list[str] = []
    minimum = _minimum(labels, problems)
    priority = _number(labels, PRIORITY_LABEL, "it counts as 0", problems) or 0
    return Numbers(minimum, priority, tuple(problems))


def _minimum(labels: Mapping[str, str], problems: list[str]) -> int:
    group, told = labels.get(GROUP_LABEL), MINIMUM_LABEL in labels
    if not group:
        if told:
            problems.append(f"it has the label {MINIMUM_LABEL} and no {GROUP_LABEL}: no gang")
        return 0
    if not told:
        problems.append(
            f"it has the label {GROUP_LABEL} and no {MINIMUM_LABEL}: it waits for nobody, and counts for those that name one"
        )
        return 0
    number = _number(labels, MINIMUM_LABEL, "no gang", problems) or 0
    return number if number > 1 else 0


def _number(
    labels: Mapping[str, str], label: str, consequence: str, problems: list[str]
) -> int | None:
    if (text := labels.get(label)) is None:
        return None
    if (number := int64.parse(text)) is None:
        problems.append(f"its label {label} is {shown(text)}, which is no number: {consequence}")
    return number


def _marked(pod: PodSpecView) -> str | None:
    annotations = pod.metadata.annotations
    return annotations.admitted if annotations else None


def _admitted(pod: PodSpecView) -> float | None:
    return None if (text := _marked(pod)) is None else rfc3339.parse_or_none(text)


def _broken_mark(pod: PodSpecView) -> Iterable[str]:
    if (text := _marked(pod)) is not None and rfc3339.parse_or_none(text) is None:
        yield f"its annotation {ADMITTED} is {shown(text)}, which is no time: passed over"


def _owner(meta: PodMetadata) -> Owner:
    for owner in meta.owner_references or ():
        if owner.controller:
            return _one_owner(owner.kind, owner.name, owner.uid, owner.api_version)
    return Owner()


@lru_cache(maxsize=4096)
def _one_owner(kind: str, name: str, uid: str, api_version: str) -> Owner:
    """One object for all pods that it made."""
    return Owner(kind, name, uid, api_version)


@lru_cache(maxsize=4096)
def _policy(namespace: str, name: str) -> PolicyKey | None:
    """One object for all pods that follow it."""
    return PolicyKey(namespace, name) if name else None


def _is_native(spec: WorkloadSpec) -> bool:
    """Whether kube-scheduler takes it for one of a group; in Kubernetes 1.35 the field had another name."""
    return spec.scheduling_group is not None or spec.workload_ref is not None


def _where(*words: bytes) -> Where:
    """What a pod asks for in these words, the JSON of node selector, affinity and tolerations; empty where they are not there.

    One object for all that ask the same, as long as they are not so long that to remember them would be of use to an attacker.
    """
    if sum(map(len, words)) > _LONG:
        return Where(_asked(*words))
    return _shared_where(*words)


@lru_cache(maxsize=4096)
def _shared_where(selector: bytes, affinity: bytes, tolerations: bytes) -> Where:
    return _alike(_asked(selector, affinity, tolerations))


def _asked(selector: bytes, affinity: bytes, tolerations: bytes) -> bytes:
    spec = PodSpec(
        node_selector=_decode_selector(selector or b"null"),
        affinity=_decode_affinity(affinity or b"null"),
        tolerations=_decode_tolerations(tolerations or b"null"),
    )
    asked = feasibility.constraint_key(spec)
    return b"" if asked == _NOWHERE_IN_PARTICULAR else asked


@lru_cache(maxsize=4096)
def _alike(asked: bytes) -> Where:
    """One object for all that ask the same in other words."""
    return Where(asked)

"""A core/v1 Event: what `kubectl describe` shows of an object. No I/O; times are RFC 3339."""

import hashlib
from typing import Any, NamedTuple

from evaluator.plans.policy_events import EventSpec
from plimsoll.text import one_line

_LONGEST = 1024
"""Characters of a message: Kubernetes takes no more."""
_NAMED = 200
"""Characters of an object's name at the head of its event's: with the rest no more than Kubernetes takes, 253."""


class ObjectReference(NamedTuple):
    """The object that an event tells of."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


def on_pod(namespace: str, name: str, uid: str) -> ObjectReference:
    """A pod."""
    return ObjectReference("v1", "Pod", namespace, name, uid)


def event(
    about: ObjectReference, notice: EventSpec, *, suffix: str, count: int, at: str
) -> dict[str, Any]:
    """An event that has happened `count` times, the last time `at`; `suffix` tells it from the object's others."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name(about, suffix), "namespace": about.namespace},
        "involvedObject": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
        },
        "type": notice.type,
        "reason": notice.reason,
        "message": one_line(notice.message, _LONGEST),
        "source": {"component": "plimsoll"},
        "reportingComponent": "plimsoll",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": count,
    }


def name(about: ObjectReference, suffix: str) -> str:
    """Of an event."""
    return f"{about.name[:_NAMED].rstrip('.-')}.{suffix}"


def suffix_of(about: ObjectReference, reason: str) -> str:
    """One for each object and reason, which every replica finds."""
    return hashlib.sha256(f"{about.uid} {reason}".encode()).hexdigest()[:16]

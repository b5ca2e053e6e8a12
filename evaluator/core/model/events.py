"""Builds core/v1 Events, as shown by `kubectl describe`. No I/O; times are RFC 3339."""

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

from plimsoll.text import one_line

_LONGEST = 1024
"""Kubernetes' limit of characters in a message."""
MOST_TIMES = 2**31 - 1
"""The highest count of an Event: an int32."""
_NAMED = 200
"""Characters of the object's name in the event's name, which may have 253."""


@dataclass(frozen=True, slots=True)
class EventSpec:
    """An event: its type, its reason in CamelCase, and a sentence."""

    type: str
    reason: str
    message: str


class ObjectReference(NamedTuple):
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def event_namespace(self) -> str:
        """The namespace of its Events: `default` for those of objects without one."""
        return self.namespace or "default"


def on_node(name: str, uid: str) -> ObjectReference:
    """Return the reference of a node. It has no namespace: `kubectl describe node` selects Events whose object has none."""
    return ObjectReference("v1", "Node", "", name, uid)


def on_pod(namespace: str, name: str, uid: str) -> ObjectReference:
    """Return the reference of a pod."""
    return ObjectReference("v1", "Pod", namespace, name, uid)


def event(
    about: ObjectReference, spec: EventSpec, *, suffix: str, count: int, at: str
) -> dict[str, Any]:
    """Return an Event that occurred `count` times, last at `at`; `suffix` distinguishes the object's events."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name(about, suffix), "namespace": about.event_namespace},
        "involvedObject": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            **({"namespace": about.namespace} if about.namespace else {}),
            "name": about.name,
            "uid": about.uid,
        },
        "type": spec.type,
        "reason": spec.reason,
        "message": one_line(spec.message, _LONGEST),
        "source": {"component": "plimsoll"},
        "reportingComponent": "plimsoll",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": count,
    }


def name(about: ObjectReference, suffix: str) -> str:
    """Return the name of an event."""
    return f"{about.name[:_NAMED].rstrip('.-')}.{suffix}"


def suffix_of(about: ObjectReference, reason: str) -> str:
    """Return a suffix derived from object and reason, so that all replicas use the same one."""
    return hashlib.sha256(f"{about.uid} {reason}".encode()).hexdigest()[:16]

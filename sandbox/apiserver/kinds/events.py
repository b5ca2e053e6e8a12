"""Conversion of Events between core/v1, the stored version, and events.k8s.io/v1."""

from sandbox.apiserver.storage.objects import Json

_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_BACK = {new: old for old, new in _NAMES.items()}


def to_core(event: Json) -> Json:
    """Convert an events.k8s.io/v1 Event to core/v1."""
    return {_BACK.get(field, field): value for field, value in event.items()} | {"apiVersion": "v1"}


def from_core(event: Json) -> Json:
    """Convert a core/v1 Event to events.k8s.io/v1."""
    renamed = {_NAMES.get(field, field): value for field, value in event.items()}
    return renamed | {"apiVersion": "events.k8s.io/v1"}


FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source.component",
    "type",
)

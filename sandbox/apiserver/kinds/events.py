"""Events have two APIs over one store: core/v1, in whose form they are kept, and events.k8s.io/v1."""

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
    """An events.k8s.io/v1 Event in core/v1's form."""
    return {_BACK.get(field, field): value for field, value in event.items()} | {"apiVersion": "v1"}


def from_core(event: Json) -> Json:
    """A core/v1 Event in events.k8s.io/v1's form."""
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

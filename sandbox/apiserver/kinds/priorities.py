"""Priority admission: sets a new pod's priority from its PriorityClass."""

from collections.abc import Iterable

from sandbox.apiserver.errors import ApiError, Subject, forbidden
from sandbox.apiserver.storage.objects import Json, name_of

COLLECTION = "priorityclasses.scheduling.k8s.io"

_PREEMPTS = "PreemptLowerPriority"
_SYSTEM: Iterable[Json] = (
    {"metadata": {"name": "system-cluster-critical"}, "value": 2_000_000_000},
    {"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000},
)
"""Classes that every cluster has; here they cannot be listed."""


def prioritize(pod: Json, classes: Iterable[Json]) -> None:
    """Set a new pod's priority from its class or the default one. Raises ApiError if the class does not exist."""
    spec = pod["spec"]
    priority_class = _class_of(pod, classes)
    if priority_class is not None:
        spec["priorityClassName"] = name_of(priority_class)
    own = priority_class or {}
    _set(pod, "priority", own.get("value", 0), "the integer value of priority")
    policy = own.get("preemptionPolicy") or _PREEMPTS
    _set(pod, "preemptionPolicy", policy, "the string value of PreemptionPolicy")


def _class_of(pod: Json, classes: Iterable[Json]) -> Json | None:
    if not (wanted := pod["spec"].get("priorityClassName")):
        return next((candidate for candidate in classes if candidate.get("globalDefault")), None)
    for candidate in (*_SYSTEM, *classes):
        if name_of(candidate) == wanted:
            return candidate
    raise _refused(pod, f"no PriorityClass with name {wanted} was found")


def _set(pod: Json, field: str, value: object, called: str) -> None:
    given = pod["spec"].setdefault(field, value)
    if given != value:
        why = (
            f"{called} ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise _refused(pod, why)


def _refused(pod: Json, why: str) -> ApiError:
    return forbidden(Subject("", "pods", name_of(pod)), why)

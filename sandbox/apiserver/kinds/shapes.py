"""JSON types of the fields that the server reads, to reject what a typed server cannot decode."""

from collections.abc import Mapping
from typing import Any

from sandbox.apiserver.errors import bad_request
from sandbox.apiserver.kinds.syntax import json_type

_OBJECT, _OBJECTS, _TEXTS, _TEXT, _NUMBER = "object", "objects", "texts", "text", "number"
_TEXT_MAP, _AMOUNTS = "text map", "amounts"

# A name has the same type in every built-in kind, except those in _AT_THE_TOP.
_FIELDS: Mapping[str, str] = {
    name: shape
    for shape, names in {
        _OBJECT: "metadata spec template strategy regarding deprecatedSource rollingUpdate selector resources securityContext names affinity nodeAffinity involvedObject source series conversion schema openAPIV3Schema subresources nodeInfo target deleteOptions preconditions state lastState waiting terminated running",
        _OBJECTS: "containers initContainers ephemeralContainers conditions tolerations schedulingGates addresses taints ownerReferences matchExpressions versions containerStatuses initContainerStatuses readinessGates podIPs additionalPrinterColumns selectableFields volumes env ports",
        _TEXTS: "finalizers shortNames categories values podCIDRs",
        _TEXT: "name nodeName image phase reason key operator uid apiVersion kind namespace schedulerName restartPolicy group scope plural singular listKind jsonPath conditionType holderIdentity clusterIP",
        _NUMBER: "replicas terminationGracePeriodSeconds priority minReadySeconds readyReplicas updatedReplicas availableReplicas observedGeneration revisionHistoryLimit progressDeadlineSeconds restartCount count containerPort disruptionsAllowed currentHealthy desiredHealthy gracePeriodSeconds",
        _TEXT_MAP: "labels annotations matchLabels data stringData nodeSelector",
        _AMOUNTS: "limits requests capacity allocatable",
    }.items()
    for name in names.split()
}  # fmt: skip
_AT_THE_TOP: Mapping[str, str] = {"status": _OBJECT}
# Below these, names are chosen by users.
_OPAQUE = frozenset({"openAPIV3Schema", "conversion", "managedFields"})
_SCALARS = (str, int, float)


def without_nulls(value: Any, path: str = "") -> Any:
    """Return a value without nulls, as a typed server decodes it. Raises a 400 for a field of the wrong type."""
    if isinstance(value, dict):
        return {
            name: _checked(name, item, path) for name, item in value.items() if item is not None
        }
    if isinstance(value, list):
        return [without_nulls(item, f"{path}[{index}]") for index, item in enumerate(value)]
    return value


def _checked(name: str, value: Any, path: str) -> Any:
    where = f"{path}.{name}" if path else name
    shape = _AT_THE_TOP.get(name) if not path and name in _AT_THE_TOP else _FIELDS.get(name)
    if shape and not _fits(value, shape):
        raise bad_request(f"json: cannot unmarshal {json_type(value)} into field {where}")
    if name in _OPAQUE:
        return value
    if shape in {_TEXT_MAP, _AMOUNTS}:
        return {key: item for key, item in value.items() if item is not None}
    return without_nulls(value, where)


def _fits(value: Any, shape: str) -> bool:
    match shape:
        case "object":
            return isinstance(value, dict)
        case "objects":
            return isinstance(value, list) and all(isinstance(item, dict) for item in value)
        case "texts":
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case "text":
            return isinstance(value, str)
        case "number":
            return isinstance(value, int) and not isinstance(value, bool)
        case _:
            allowed = str if shape == _TEXT_MAP else _SCALARS
            return isinstance(value, dict) and all(
                isinstance(item, allowed) or item is None for item in value.values()
            )

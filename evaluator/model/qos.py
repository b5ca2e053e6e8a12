"""The quality of service class of a pod: as the API server told it, and else as it works it out.

https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from evaluator.model.gang_membership import QoS
from evaluator.model.pod_demand import Resource
from evaluator.model.pods import PodSpecView, Requests
from plimsoll import quantity

_NAMES = {
    "Guaranteed": QoS.GUARANTEED,
    "Burstable": QoS.BURSTABLE,
    "BestEffort": QoS.BEST_EFFORT,
}
_DECISIVE = (Resource.CPU, Resource.MEMORY)
"""No other resource makes a difference."""

_Amounts = dict[Resource, Fraction]


def of(pod: PodSpecView) -> QoS:
    """The class of a pod. What it asks for that is no quantity makes no difference."""
    told = _NAMES.get(pod.status.qos_class)
    return _worked_out(pod) if told is None else told


def _worked_out(pod: PodSpecView) -> QoS:
    spec = pod.spec
    parts = [spec.resources] if _says_something(spec.resources) else []
    if not parts:
        containers = (*(spec.init_containers or ()), *(spec.containers or ()))
        parts = [container.resources for container in containers]
    requests, limits, limited = _summed(part or Requests() for part in parts)
    if not requests and not limits:
        return QoS.BEST_EFFORT
    return QoS.GUARANTEED if limited and requests == limits else QoS.BURSTABLE


def _says_something(resources: Requests | None) -> bool:
    return bool(resources and (resources.requests or resources.limits))


def _summed(parts: Iterable[Requests]) -> tuple[_Amounts, _Amounts, bool]:
    """What is requested and what is the limit, together; and whether each part has a limit of everything."""
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


def _positive(told: Mapping[str, Any] | None) -> _Amounts:
    found = {
        resource: _value(told[resource]) for resource in _DECISIVE if told and resource in told
    }
    return {resource: value for resource, value in found.items() if value > 0}


def _value(text: object) -> Fraction:
    try:
        return quantity.exact(str(text))
    except ValueError:
        return Fraction()

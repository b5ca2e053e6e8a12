"""The quality of service class of a pod: from its status, or else computed by Kubernetes' rule.

https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from evaluator.core.model.gangs.membership import QoS
from evaluator.core.model.pod_demand import Resource
from evaluator.core.model.pod_spec_view import PodSpecView, Requests
from plimsoll import quantity

_NAMES = {
    "Guaranteed": QoS.GUARANTEED,
    "Burstable": QoS.BURSTABLE,
    "BestEffort": QoS.BEST_EFFORT,
}
_DECISIVE = (Resource.CPU, Resource.MEMORY)
"""Other resources do not affect the class."""

_Amounts = dict[Resource, Fraction]


def of(pod: PodSpecView) -> QoS:
    """Return the class of a pod; invalid quantities count as absent."""
    known = _NAMES.get(pod.status.qos_class)
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
    found = {
        resource: _value(amounts[resource])
        for resource in _DECISIVE
        if amounts and resource in amounts
    }
    return {resource: value for resource, value in found.items() if value > 0}


def _value(text: object) -> Fraction:
    try:
        return quantity.exact(str(text))
    except ValueError:
        return Fraction()

"""What a ResourceQuota charges for a pod: all of it from the moment it is made, held by a gate or not. No I/O.

https://kubernetes.io/docs/concepts/policy/resource-quotas/
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from plimsoll import quantity

PODS = frozenset({"pods", "count/pods"})
"""The names of a quota for pods themselves."""

Charge = Mapping[str, Fraction]
"""Amounts by the names that quotas have for them, in their base units."""

_BARE = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources whose requests a quota may also name without `requests.`; of whose limits it may name the sum."""


_MOST = Fraction(2**63 - 1)
"""Kubernetes holds no quantity to be more."""


class Reference(msgspec.Struct, rename="camel"):
    """metav1 OwnerReference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    owner_references: list[Reference] | None = None


class _Resources(msgspec.Struct):
    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class _Container(msgspec.Struct, rename="camel"):
    resources: _Resources = msgspec.field(default_factory=_Resources)
    restart_policy: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: dict[str, Any] | None = None
    resources: _Resources | None = None
    active_deadline_seconds: int | None = None
    priority_class_name: str = ""


class _Status(msgspec.Struct, rename="camel"):
    qos_class: str = ""


class Member(msgspec.Struct):
    """core/v1 Pod: what it is charged for, and who made it."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def uid(self) -> str:
        """Its uid."""
        return self.metadata.uid

    @property
    def controller(self) -> Reference | None:
        """Who made it, and makes another when it is gone."""
        references = self.metadata.owner_references or ()
        return next((found for found in references if found.controller), None)


def charge(pod: Member) -> Charge:
    """What a quota charges for a pod; what cannot be read of it is not in it."""
    requests = _needed(pod.spec, "requests")
    limits = _needed(pod.spec, "limits")
    overhead = _read(pod.spec.overhead)
    requests = _sum([requests, overhead])
    limits = {name: value + overhead.get(name, 0) for name, value in limits.items() if value}
    return (
        dict.fromkeys(PODS, Fraction(1))
        | {name: value for name, value in requests.items() if _is_bare(name)}
        | {f"requests.{name}": value for name, value in requests.items()}
        | {f"limits.{name}": value for name, value in limits.items() if name in _BARE}
    )


def _is_bare(name: str) -> bool:
    return name in _BARE or name.startswith("hugepages-")


def _needed(spec: _Spec, kind: str) -> Charge:
    """Containers run beside all sidecars, init containers one after another, each beside the sidecars before it."""
    sidecars: Charge = {}
    starting: Charge = {}
    for init in spec.init_containers or ():
        beside = _sum([sidecars, _asked(init.resources, kind)])
        starting = _most(starting, beside)
        if init.restart_policy == "Always":
            sidecars = beside
    running = _sum([sidecars, *(_asked(one.resources, kind) for one in spec.containers or ())])
    stated = _asked(spec.resources, kind) if spec.resources else {}
    return {**_most(starting, running), **stated}


def _asked(resources: _Resources, kind: str) -> Charge:
    return _read(resources.requests if kind == "requests" else resources.limits)


def _read(told: Mapping[str, Any] | None) -> Charge:
    found: dict[str, Fraction] = {}
    for name, text in (told or {}).items():
        try:
            found[name] = min(quantity.exact(str(text)), _MOST)
        except ValueError:  # nothing is claimed of what nobody could add up
            continue
    return found


def _sum(charges: Iterable[Charge]) -> Charge:
    found: dict[str, Fraction] = {}
    for one in charges:
        for name, value in one.items():
            found[name] = found.get(name, Fraction(0)) + value
    return found


def _most(one: Charge, other: Charge) -> Charge:
    return {
        name: max(one.get(name, Fraction(0)), other.get(name, Fraction(0)))
        for name in {*one, *other}
    }

"""Which ResourceQuota keeps pods of a gang from being made, in words for people. No I/O.

Claims no more than it knows: the pods that are missing are taken to ask for the least that one of those asks for that
exist, and a quota whose scopes are about other things than a pod's class, deadline or priority is passed over.
https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-scopes
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec

from evaluator.gangs.diagnosis.quota_usage import PODS, Member, charge
from plimsoll import quantity
from plimsoll.text import counted


class _Meta(msgspec.Struct):
    name: str = ""


class _Requirement(msgspec.Struct, rename="camel"):
    scope_name: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Selector(msgspec.Struct, rename="camel"):
    match_expressions: list[_Requirement] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    hard: dict[str, Any] | None = None
    scopes: list[str] | None = None
    scope_selector: _Selector | None = None


class _Status(msgspec.Struct):
    hard: dict[str, Any] | None = None
    used: dict[str, Any] | None = None


class Quota(msgspec.Struct):
    """core/v1 ResourceQuota."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def hard(self) -> Mapping[str, Any]:
        """What is enforced: what its status says, as soon as there is one."""
        return self.status.hard or self.spec.hard or {}

    def covers(self, pod: Member) -> bool:
        """Whether it is known to be about a pod."""
        asked = [_Requirement(scope, "Exists") for scope in self.spec.scopes or ()]
        if self.spec.scope_selector is not None:
            asked += self.spec.scope_selector.match_expressions or ()
        return all(_matches(requirement, pod) for requirement in asked)


class Missing(NamedTuple):
    """Pods that are to be made beside those that live."""

    pods: int
    living: int


def in_the_way(quota: Quota, pods: Sequence[Member], missing: Missing) -> Iterator[str]:
    """Why so many more pods like these cannot be made; nothing where they can."""
    if not pods or not all(map(quota.covers, pods)):
        return
    charges = [charge(pod) for pod in pods]
    for name in quota.hard:
        least = min(one.get(name, Fraction(0)) for one in charges)
        allowance = _Allowance.of(quota, name)
        if least and allowance is not None and (why := allowance.short(least, missing)):
            yield f"ResourceQuota {quota.metadata.name} {why}"


@dataclass(frozen=True, slots=True)
class _Allowance:
    """Of one resource. `used` is 0 where nobody has counted yet: then only what is allowed in all is held against it."""

    resource: str
    hard: Fraction
    used: Fraction

    @classmethod
    def of(cls, quota: Quota, resource: str) -> "_Allowance | None":
        """None where the quota cannot be read."""
        used = (quota.status.used or {}).get(resource, "0")
        try:
            hard, taken = quantity.exact(str(quota.hard[resource])), quantity.exact(str(used))
        except ValueError:
            return None
        return cls(resource, hard, taken)

    def short(self, each: Fraction, missing: Missing) -> str:
        """What is wrong; empty if the missing pods may be made."""
        wanted = missing.living + missing.pods
        if wanted * each > self.hard:
            return self._too_little(each, wanted)
        if self.used + missing.pods * each > self.hard:
            return self._used_up(each, missing.pods)
        return ""

    def _too_little(self, each: Fraction, wanted: int) -> str:
        if self.resource in PODS:
            return f"allows {counted(int(self.hard), 'pod')} in the namespace, and the gang needs {wanted}"
        hard, one, total = (self._said(value) for value in (self.hard, each, wanted * each))
        return f"allows {hard} of {self.resource}, and {wanted} pods of {one} each need {total}"

    def _used_up(self, each: Fraction, missing: int) -> str:
        left = self._said(max(Fraction(0), self.hard - self.used))
        of = f"has {left} of {self._said(self.hard)}"
        if self.resource in PODS:
            return f"{of} pods left, and the gang lacks {missing}"
        lacks = f"the gang lacks {counted(missing, 'pod')} of {self._said(each)} each"
        return f"{of} of {self.resource} left, and {lacks}"

    def _said(self, value: Fraction) -> str:
        if "memory" in self.resource or "storage" in self.resource or "hugepages" in self.resource:
            return _bytes(value)
        return f"{float(value):.6g}"


def _bytes(value: Fraction) -> str:
    for power, suffix in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        if value >= 1024**power:
            return f"{float(value / 1024**power):.4g}{suffix}"
    return f"{float(value):.6g}"


def _matches(requirement: _Requirement, pod: Member) -> bool:
    spec, best_effort = pod.spec, pod.status.qos_class == "BestEffort"
    ends = spec.active_deadline_seconds is not None
    match requirement.scope_name:
        case "BestEffort":
            return best_effort
        case "NotBestEffort":
            return bool(pod.status.qos_class) and not best_effort
        case "Terminating":
            return ends
        case "NotTerminating":
            return not ends
        case "PriorityClass":
            return _selects(requirement, spec.priority_class_name)
        case _:
            return False


def _selects(requirement: _Requirement, value: str) -> bool:
    values = requirement.values or ()
    match requirement.operator:
        case "Exists":
            return bool(value)
        case "DoesNotExist":
            return not value
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case _:
            return False

"""What keeps a pod apart from others: required anti-affinity, topology spread with DoNotSchedule, host ports, and its volumes.

Pods of one workload share one object, since all have the same constraints.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from evaluator.core.model.names import UNREADABLE

DO_NOT_SCHEDULE = "DoNotSchedule"
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 (compared, not bound)


class LabelRequirement(msgspec.Struct, frozen=True):
    """meta/v1 LabelSelectorRequirement."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class LabelSelector(msgspec.Struct, frozen=True, rename="camel"):
    """meta/v1 LabelSelector: all requirements must match; an empty one matches everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[LabelRequirement, ...] | None = None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels match."""
        wanted = self.match_labels or {}
        return all(labels.get(key) == value for key, value in wanted.items()) and all(
            _meets(labels.get(one.key), one) for one in self.match_expressions or ()
        )


def _meets(value: str | None, requirement: LabelRequirement) -> bool:
    match requirement.operator:
        case "In":
            return value in (requirement.values or ())
        case "NotIn":
            return value not in (requirement.values or ())
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:  # unknown operator: assume a match, which keeps pods apart
            return True


class AntiAffinityTerm(msgspec.Struct, frozen=True, rename="camel"):
    """core/v1 PodAffinityTerm of a required anti-affinity. A namespace selector counts as one of all namespaces."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] | None = None

    def selects_namespace(self, namespace: str, own: str) -> bool:
        """Return whether pods of a namespace count; `own`: that of the pod with the term."""
        if self.namespace_selector is not None:
            return True
        return namespace in self.namespaces if self.namespaces else namespace == own


class SpreadConstraint(msgspec.Struct, frozen=True, rename="camel"):
    """core/v1 TopologySpreadConstraint."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    match_label_keys: tuple[str, ...] | None = None


class _AntiAffinity(msgspec.Struct):
    required: tuple[AntiAffinityTerm, ...] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class HostPort(NamedTuple):
    """A port of the node that a container listens on."""

    port: int
    protocol: str
    address: str

    def conflicts(self, other: "HostPort") -> bool:
        """Return whether both cannot be on one node; 0.0.0.0 is every address."""
        any_address = ANY_ADDRESS in {self.address, other.address}
        same = self.address == other.address or any_address
        return same and self[:2] == other[:2]


class Apart(NamedTuple):
    """The constraints of a pod. `claims`: names of its PersistentVolumeClaims. `unreadable`: what could not be decoded."""

    terms: tuple[AntiAffinityTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    ports: tuple[HostPort, ...] = ()
    claims: tuple[str, ...] = ()
    unreadable: bool = False


NOTHING_APART = Apart()


def apart(
    anti_affinity: bytes, spread: bytes, ports: Iterable[HostPort], claims: Iterable[str]
) -> Apart:
    """Return the constraints of a pod, decoded from their JSON; `unreadable` if a part is malformed."""
    ports, claims = tuple(ports), tuple(claims)
    if not (anti_affinity or spread or ports or claims):
        return NOTHING_APART
    return _shared(anti_affinity, spread, ports, claims)


@lru_cache(1 << 12)
def _shared(
    anti_affinity: bytes, spread: bytes, ports: tuple[HostPort, ...], claims: tuple[str, ...]
) -> Apart:
    try:
        terms = _decoded(anti_affinity, _AntiAffinity | None)
        every = _decoded(spread, tuple[SpreadConstraint, ...] | None) or ()
    except UNREADABLE:
        return Apart((), (), ports, claims, unreadable=True)
    required = (terms and terms.required) or ()
    strict = tuple(one for one in every if one.when_unsatisfiable == DO_NOT_SCHEDULE)
    return Apart(required, strict, ports, claims)


class _Affinity(msgspec.Struct, rename="camel"):
    pod_anti_affinity: msgspec.Raw = msgspec.Raw()


def others_apart(affinity: bytes, ports: Iterable[HostPort]) -> Apart:
    """Return what keeps others from a pod's node, from the JSON of its affinity; nothing of that if it is malformed.

    The API server validates it. An unreadable one of a pod that stays keeps no other from leaving.
    """
    anti_affinity = b""
    if affinity:
        try:
            anti_affinity = bytes(msgspec.json.decode(affinity, type=_Affinity).pod_anti_affinity)
        except UNREADABLE:
            anti_affinity = b""
    return apart(anti_affinity, b"", ports, ())


def _decoded(text: bytes, kind: Any) -> Any:
    return msgspec.json.decode(text, type=kind) if text else None

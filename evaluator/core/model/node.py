"""The fields of core/v1 Node that the evaluator reads; other fields are skipped, not decoded.

Strings are interned: thousands of nodes repeat the same values.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from sys import intern
from typing import Any, NamedTuple

import msgspec

from evaluator.core.model import resources
from evaluator.core.model.names import ManagedFields, ObjectMeta
from evaluator.core.model.node_labels import FIELD_MANAGER, NodeLabels
from evaluator.core.model.resources import USAGE_ANNOTATIONS, Allocatable, ExtendedResources
from plimsoll import rfc3339

OWN_ANNOTATIONS = "plimsoll.io/"
"""Prefix of the annotations of nodes that are kept, for the features that read them."""
_MOST_KEPT, _LONGEST_KEPT = 40, 20_000
"""Annotations of a node with that prefix that are kept, and characters of each."""


class Taint(msgspec.Struct, gc=False):
    """core/v1 Taint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeCondition(NamedTuple):
    """One condition of a node; times are Unix seconds, None if unknown.

    `since`: last transition. `at`: last write of the reporter, by its heartbeat or transition. `message`: of a condition to
    write; those of nodes as read are not kept.
    """

    type: str
    status: str
    reason: str = ""
    since: float | None = None
    at: float | None = None
    message: str = ""

    @property
    def state(self) -> str:
        """Status and reason, as `<status>/<reason>`: a condition is written when they change."""
        return f"{self.status}/{self.reason}"

    @classmethod
    def in_state(cls, kind: str, state: str) -> "NodeCondition":
        """Return a condition of a type with this status and reason."""
        status, _, reason = state.partition("/")
        return cls(kind, status, reason)


class _ReportedCondition(msgspec.Struct, rename="camel"):
    """core/v1 NodeCondition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None
    last_heartbeat_time: str | None = None

    @property
    def reduced(self) -> NodeCondition:
        since = rfc3339.parse_or_none(self.last_transition_time)
        at = rfc3339.parse_or_none(self.last_heartbeat_time)
        if at is None or (since is not None and since > at):
            at = since
        kind, reason = intern(self.type), intern(self.reason)
        return NodeCondition(kind, intern(self.status), reason, since, at)


class NodeSpec(msgspec.Struct):
    """core/v1 NodeSpec."""

    unschedulable: bool = False
    taints: list[Taint] | None = None


class Address(msgspec.Struct, gc=False):
    """One address of a node."""

    type: str = ""
    address: str = ""


class NodeInfo(msgspec.Struct, gc=False):
    """core/v1 NodeSystemInfo."""

    system: str = msgspec.field(default="", name="systemUUID")


class NodeStatus(msgspec.Struct):
    """core/v1 NodeStatus, reduced to the conditions, the addresses and the allocatable resources.

    `resource_vector` has the resources of RESOURCES, `others` the extended resources.
    """

    conditions: Sequence[NodeCondition] = msgspec.field(default=(), name="conditionsReduced")
    addresses: list[Address] | None = None
    allocatable: dict[str, Any] | None = None
    resource_vector: Allocatable | None = None
    others: ExtendedResources = ()
    node_info: NodeInfo | None = msgspec.field(default=None, name="nodeInfo")
    reported: list[_ReportedCondition] | None = msgspec.field(default=None, name="conditions")
    """The conditions as decoded; None afterwards."""

    @property
    def system_uuid(self) -> str:
        """The UUID of the machine, as its firmware has it."""
        return self.node_info.system if self.node_info else ""

    def __post_init__(self) -> None:
        if self.reported is not None:
            self.conditions = tuple(condition.reduced for condition in self.reported)
            self.reported = None
        if self.allocatable is not None:
            self.resource_vector = resources.allocatable(self.allocatable)
            self.others = resources.allocatable_extended(self.allocatable)
            self.allocatable = None


_LEAVING = frozenset(
    {
        "DrainInProgress",
        "Drained",
        "GracefulNodeShutdownInProgress",
        "MaintenanceInProgress",
        "MaintenancePlanned",
    }
)

_OF_KUBERNETES = re.compile(r"([^/]*\.)?(kubernetes|k8s)\.io/")
"""Begin of the keys of labels that Kubernetes sets."""
_NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,3})?", re.ASCII)


KUBERNETES_CONDITIONS = frozenset(
    {
        "Ready",
        "MemoryPressure",
        "DiskPressure",
        "PIDPressure",
        "NetworkUnavailable",
        "SystemMemoryContentionPressure",
        "SystemDiskContentionPressure",
        "KubepodsMemoryContentionPressure",
        "KubepodsDiskContentionPressure",
        "GracefulNodeShutdownInProgress",
        "DrainInProgress",
        "Drained",
        "MaintenancePlanned",
        "MaintenanceInProgress",
    }
)
"""Condition types of Kubernetes."""


class ConditionOwner(NamedTuple):
    """A field manager that owns a part of a condition; `applied`: by server-side apply, not by an update."""

    manager: str
    applied: bool


LabelOwners = tuple[tuple[str, tuple[str, ...]], ...]
"""Other field managers of a node's labels with the keys that they own; without keys of Kubernetes."""

ConditionOwners = tuple[tuple[str, tuple[ConditionOwner, ...]], ...]
"""Condition types of a node with their owners, sorted by type; without those of Kubernetes."""


def _condition_owners(entries: Sequence[ManagedFields]) -> ConditionOwners:
    found: dict[str, list[ConditionOwner]] = {}
    for entry in entries:
        owner = ConditionOwner(entry.manager, entry.applied("status"))
        for kind in entry.conditions - KUBERNETES_CONDITIONS:
            found.setdefault(kind, []).append(owner)
    return _shared(tuple((kind, tuple(found[kind])) for kind in sorted(found)))


def _label_owners(entries: Sequence[ManagedFields]) -> LabelOwners:
    found: dict[str, set[str]] = {}
    for entry in entries:
        keys = {key for key in entry.labels if not _OF_KUBERNETES.match(key)}
        if keys and entry.manager != FIELD_MANAGER:
            found.setdefault(entry.manager, set()).update(keys)
    return _shared_labels(tuple((name, tuple(sorted(found[name]))) for name in sorted(found)))


@lru_cache(maxsize=256)
def _shared_labels(owners: LabelOwners) -> LabelOwners:
    """Return one object for all nodes with the same owners."""
    return owners


@lru_cache(maxsize=256)
def _shared(owners: ConditionOwners) -> ConditionOwners:
    """Return one object for all nodes with the same owners."""
    return owners


def _of_family(key: str) -> bool:
    """Return whether an annotation has our prefix and a name like `ack.<type>`."""
    return key.startswith(OWN_ANNOTATIONS) and "." in key[len(OWN_ANNOTATIONS) :]


def _written(entries: Sequence[ManagedFields]) -> Iterator[tuple[str, float]]:
    """Yield the annotations of families with the time of the first manager that has their value, of the first few."""
    found: dict[str, float] = {}
    for entry in entries:
        if (at := rfc3339.parse_or_none(entry.time)) is not None:
            for key in filter(_of_family, entry.annotations):
                found[key] = min(at, found.get(key, at))
    return islice(found.items(), _MOST_KEPT)


def _own_annotations(annotations: Mapping[str, Any]) -> Iterator[str]:
    """Yield keys and texts with our prefix, single keys before families such as `plimsoll.io/ack.<type>`, which may be many."""
    own = (
        (intern(key), text[:_LONGEST_KEPT])
        for key, text in annotations.items()
        if key.startswith(OWN_ANNOTATIONS) and isinstance(text, str)
    )
    order = sorted(own, key=lambda entry: (_of_family(entry[0]), entry))
    return chain.from_iterable(order[:_MOST_KEPT])


class NodeMeta(ObjectMeta, rename="camel"):
    """ObjectMeta of a node; of its annotations, the numbers that scorers read and those with our prefix are kept.

    `figures` has them in the order of USAGE_ANNOTATIONS; `math.nan` if absent or not a number.
    """

    annotations: dict[str, Any] | None = None
    annotations_kept: tuple[str, ...] = ()
    """Keys and texts of the annotations with our prefix in turn: pairs would take twice the memory."""
    families_written: tuple[tuple[str, float], ...] = ()
    """Keys of families of annotations, such as `plimsoll.io/ack.<type>`, and when they were written, by the API server's clock."""
    condition_owners: ConditionOwners = ()
    label_owners: LabelOwners = ()
    taints_manager: str = ""
    """The other field manager that owns the list of taints; empty if none does."""

    def __post_init__(self) -> None:
        if self.managed_fields is not None:
            self.condition_owners = _condition_owners(self.managed_fields)
            self.label_owners = _label_owners(self.managed_fields)
            others = (
                e.manager
                for e in self.managed_fields
                if e.has_taints and e.manager != FIELD_MANAGER
            )
            self.taints_manager = intern(next(others, ""))
            if self.annotations is not None and any(map(_of_family, self.annotations)):
                self.families_written = tuple(_written(self.managed_fields))
        super().__post_init__()
        if self.annotations is not None:
            if any(key in self.annotations for key in USAGE_ANNOTATIONS):
                self.figures = tuple(
                    _figure(self.annotations.get(key)) for key in USAGE_ANNOTATIONS
                )
            self.annotations_kept = tuple(_own_annotations(self.annotations))
            self.annotations = None


@lru_cache(maxsize=4096)
def _number(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        return math.nan
    found = float(text)
    return found if math.isfinite(found) else math.nan


def _figure(text: object) -> float:
    plausible = isinstance(text, str) and len(text) < 100  # bounds the cache
    return _number(text) if plausible else math.nan


class Node(msgspec.Struct):
    """core/v1 Node."""

    metadata: NodeMeta
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)

    @property
    def node_labels(self) -> NodeLabels:
        """The labels, and which of them we own."""
        meta = self.metadata
        return NodeLabels(meta.uid, meta.labels or {}, meta.owned_labels, meta.label_owners)

    @property
    def labels_with_owners(self) -> tuple[NodeLabels, LabelOwners]:
        """The labels, and the field managers that own them."""
        return self.node_labels, self.metadata.label_owners

    def older_than(self, other: "Node") -> bool:
        """Return whether this is an earlier state of the node; false if the resource versions are not comparable."""
        mine, others = self.metadata.resource_version, other.metadata.resource_version
        return _comparable(mine) and _comparable(others) and int(mine) < int(others)

    @property
    def placement(self) -> tuple[Any, ...]:
        """The fields that decide which pods the node is feasible for."""
        return (self.ready_status, self.spec, self.metadata.labels)

    @property
    def leaving(self) -> bool:
        """Whether the node is being drained or shut down, or soon will be: https://kep.k8s.io/5683."""
        return any(c.type in _LEAVING and c.status == "True" for c in self.status.conditions)

    @property
    def acted_on(self) -> tuple[Any, ...]:
        """The fields with taints and conditions, and the owners of the conditions."""
        return (self.spec.taints, self.status.conditions, self.metadata.condition_owners)

    def applied_conditions(self, manager: str) -> dict[str, bool]:
        """Return the types of the conditions that a field manager applied, and whether no other has written to them since."""
        return {
            kind: all(owner.manager == manager for owner in owners)
            for kind, owners in self.metadata.condition_owners
            if ConditionOwner(manager, applied=True) in owners
        }

    def own_conditions(self, manager: str) -> dict[str, NodeCondition]:
        """Return the conditions that a field manager alone owns, by type."""
        applied = self.applied_conditions(manager)
        return {c.type: c for c in self.status.conditions if applied.get(c.type)} if applied else {}

    def foreign_conditions(self, manager: str) -> dict[str, str]:
        """Return the conditions that a field manager does not own, by type, with the one that does; empty if none does.

        Without those of Kubernetes.
        """
        own, owners = self.own_conditions(manager), dict(self.metadata.condition_owners)
        return {
            c.type: next(
                (o.manager for o in owners.get(c.type, ())[::-1] if o.manager != manager), ""
            )
            for c in self.status.conditions
            if c.type not in KUBERNETES_CONDITIONS and c.type not in own
        }

    @property
    def annotated(self) -> tuple[Any, ...]:
        """The annotations with our prefix, and the UUID of the machine that they are about."""
        return (self.metadata.annotations_kept, self.status.system_uuid)

    def annotations(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield the annotations whose keys start with a prefix, itself one of ours; long texts are cut."""
        kept = self.metadata.annotations_kept
        for key, text in zip(kept[::2], kept[1::2], strict=True):
            if key.startswith(prefix):
                yield key, text

    def written_at(self, key: str) -> float | None:
        """Return when an annotation of a family was written at the latest, by the API server's clock (Unix seconds), if it is known."""
        return dict(self.metadata.families_written).get(key)

    def annotation(self, key: str) -> str:
        """Return an annotation with our prefix; empty if the node does not have it."""
        return dict(self.annotations(key)).get(key, "")

    @property
    def figures(self) -> tuple[Any, ...]:
        """Allocatable resources and the annotations that scorers read."""
        return (self.status.resource_vector, self.status.others, self.metadata.figures)

    @property
    def ready_status(self) -> str:
        """The status of the Ready condition: True, False or Unknown; empty without the condition."""
        return next((c.status for c in self.status.conditions if c.type == "Ready"), "")


def _comparable(version: str) -> bool:
    """Return whether a resource version is a 64-bit number, as etcd's are."""
    return version.isascii() and version.isdigit() and len(version) <= 20

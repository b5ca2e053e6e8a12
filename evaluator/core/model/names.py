"""Names in the Kubernetes API that several packages share, and ObjectMeta, reduced to the fields that the evaluator reads.

Other fields are skipped, not decoded. Strings are interned: thousands of nodes repeat the same label keys and values.
"""

import json
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple

import msgspec

from evaluator.core.model.node_labels import FIELD_MANAGER

POLICY_LABEL = "telemetry-policy"
"""The pod label that names its policy, in the pod's namespace."""
EXTENDER_RESOURCE = "telemetry/scheduling"
"""The resource that a pod requests so that kube-scheduler calls the extender."""

ENFORCEMENT = "plimsoll.io/enforcement"
"""The annotation of a policy that is only observed: `observe`; `enforce` is the default."""
PLACED_SINCE = "plimsoll.io/placed-since"
"""The annotation of a policy by which pods placed since a reading count: `count`, the default, or `ignore`."""
RANKING = "plimsoll.io/ranking"
"""The annotation of a policy by which nodes are scored: `rank`, the default, `value` or `headroom`."""

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding untrusted JSON raises: not JSON or not of the type; not UTF-8; nested too deeply."""


class PolicyKey(NamedTuple):
    """Namespace and name of a policy."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class _OwnedMeta(msgspec.Struct):
    labels: dict[str, Any] | None = msgspec.field(default=None, name="f:labels")
    annotations: dict[str, msgspec.Raw] | None = msgspec.field(default=None, name="f:annotations")


class _OwnedStatus(msgspec.Struct):
    conditions: dict[str, msgspec.Raw] | None = msgspec.field(default=None, name="f:conditions")


class _OwnedSpec(msgspec.Struct):
    taints: Any = msgspec.field(default=None, name="f:taints")


class _OwnedFields(msgspec.Struct):
    metadata: _OwnedMeta | None = msgspec.field(default=None, name="f:metadata")
    spec: _OwnedSpec | None = msgspec.field(default=None, name="f:spec")
    status: _OwnedStatus | None = msgspec.field(default=None, name="f:status")


class ManagedFields(msgspec.Struct, rename="camel"):
    """The labels that one field manager owns: https://kubernetes.io/docs/reference/using-api/server-side-apply/."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: str | None = None
    """When the manager last changed fields, by the API server's clock."""
    fields_v1: _OwnedFields | None = msgspec.field(default=None, name="fieldsV1")

    @property
    def labels(self) -> frozenset[str]:
        """The label keys in `{"f:metadata": {"f:labels": {"f:<key>": {}}}}`."""
        metadata = self.fields_v1 and self.fields_v1.metadata
        fields = (metadata and metadata.labels) or ()
        return frozenset(intern(field[2:]) for field in fields if field.startswith("f:"))

    @property
    def annotations(self) -> frozenset[str]:
        """The annotation keys in `{"f:metadata": {"f:annotations": {"f:<key>": {}}}}`."""
        metadata = self.fields_v1 and self.fields_v1.metadata
        fields = (metadata and metadata.annotations) or ()
        return frozenset(field[2:] for field in fields if field.startswith("f:"))

    @property
    def conditions(self) -> frozenset[str]:
        """The condition types in `{"f:status": {"f:conditions": {"k:{\\"type\\":\\"<type>\\"}": {}}}}`."""
        status = self.fields_v1 and self.fields_v1.status
        found = map(_condition_type, (status and status.conditions) or ())
        return frozenset(intern(kind) for kind in found if kind)

    @property
    def has_taints(self) -> bool:
        """Whether the manager owns the list of taints, which has one owner."""
        fields = self.fields_v1
        return fields is not None and fields.spec is not None and fields.spec.taints is not None

    def applied(self, subresource: str = "") -> bool:
        """Whether the manager owns the fields by server-side apply, not by an update."""
        return (self.operation, self.subresource) == ("Apply", subresource)


@lru_cache(maxsize=1024)
def _condition_type(key: str) -> str:
    """Return the type in a key such as `k:{"type":"Ready"}`; empty for anything else."""
    try:
        found = json.loads(key.removeprefix("k:"))
    except ValueError:
        return ""
    kind = found.get("type") if isinstance(found, dict) else None
    return kind if isinstance(kind, str) else ""


class ObjectMeta(msgspec.Struct, rename="camel"):
    """ObjectMeta. Managed fields, the larger half of many objects, are reduced to the labels that we own."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None
    managed_fields: list[ManagedFields] | None = None
    owned_labels: frozenset[str] = frozenset()
    figures: tuple[float, ...] | None = None
    """Numeric annotations of a node, see NodeMeta."""

    def __post_init__(self) -> None:
        if self.labels:
            self.labels = {intern(key): intern(value) for key, value in self.labels.items()}
        if self.managed_fields is not None:
            ours = (e for e in self.managed_fields if e.manager == FIELD_MANAGER and e.applied())
            self.owned_labels = frozenset[str]().union(*(entry.labels for entry in ours))
            self.managed_fields = None

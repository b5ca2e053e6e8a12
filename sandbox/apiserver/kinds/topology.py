"""Merge rules of values: which maps and lists are atomic, which are sets, and the keys of list items."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from sandbox.apiserver.storage.objects import Json

Kind = Literal["granular", "atomic", "set", "keyed"]


class Topology(Protocol):
    """The merge rules at one path of an object, and of its children."""

    @property
    def kind(self) -> Kind:
        """Return the merge type: granular maps merge by field, atomic values are replaced whole, lists have one of the others."""
        ...

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the key fields of a keyed list's items."""
        ...

    @property
    def always_present(self) -> bool:
        """Return whether the map always exists, so that it has no owner."""
        ...

    def names(self, field: str) -> bool:
        """Return whether a field belongs to a struct rather than to a map."""
        ...

    def default(self, key: str) -> Any:
        """Return the default of an absent key field of a list item."""
        ...

    def child(self, field: str) -> "Topology":
        """Return the rules of a field."""
        ...

    def item(self) -> "Topology":
        """Return the rules of a list's items."""
        ...


_KEYED: Mapping[str, tuple[str, ...]] = {
    # By the field's name or, if ambiguous, by its parent's and its own.
    "addresses": ("type",),
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "podIPs": ("ip",),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "secrets": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
    "containers.ports": ("containerPort", "protocol"),
    "initContainers.ports": ("containerPort", "protocol"),
    "spec.ports": ("port", "protocol"),
}
_STRUCTS = frozenset({"metadata", "spec", "status", "template"})
_SETS = frozenset({"finalizers", "podCIDRs"})
_MAPS = frozenset(
    {
        "allocatable", "annotations", "binaryData", "capacity", "data", "hard", "labels", "limits",
        "matchLabels", "overhead", "parameters", "requests", "stringData", "used",
    }
)  # fmt: skip
_ATOMIC = frozenset(
    {
        "configMapKeyRef", "fieldRef", "involvedObject", "labelSelector", "namespaceSelector",
        "nodeSelector", "requiredDuringSchedulingIgnoredDuringExecution", "resourceFieldRef",
        "secretKeyRef", "selector", "targetRef",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """The rules of built-in kinds, in which a name has nearly always the same meaning."""

    parent: str = ""
    field: str = ""
    is_item: bool = False

    @property
    def kind(self) -> Kind:
        if self.field in _ATOMIC and not self.is_item:
            return "atomic"
        if self.field in _SETS and not self.is_item:
            return "set"
        return "keyed" if self.keys else "granular"

    @property
    def keys(self) -> tuple[str, ...]:
        if self.is_item:
            return ()
        return _KEYED.get(f"{self.parent}.{self.field}") or _KEYED.get(self.field, ())

    @property
    def always_present(self) -> bool:
        return self.field in _STRUCTS and not self.is_item

    def names(self, field: str) -> bool:
        return self.field not in _MAPS

    def default(self, key: str) -> Any:
        return "TCP" if key == "protocol" else None

    def child(self, field: str) -> Topology:
        # Keys of string maps, such as "data", have no meaning here.
        return BuiltIn(self.field, field) if self.names(field) else BuiltIn()

    def item(self) -> Topology:
        return BuiltIn(self.parent, self.field, is_item=True)


BUILT_IN = BuiltIn()


@dataclass(frozen=True, slots=True)
class Custom:
    """The rules of a custom resource's schema."""

    schema: Json
    is_root: bool = False

    @property
    def kind(self) -> Kind:
        if self.schema.get("type") == "array" or "items" in self.schema:
            match self.schema.get("x-kubernetes-list-type"):
                case "map":
                    return "keyed"
                case "set":
                    return "set"
                case _:
                    return "atomic"
        return "atomic" if self.schema.get("x-kubernetes-map-type") == "atomic" else "granular"

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.schema.get("x-kubernetes-list-map-keys") or ())

    @property
    def always_present(self) -> bool:
        return self.is_root

    def names(self, field: str) -> bool:
        return self.is_root or field in (self.schema.get("properties") or {})

    def default(self, key: str) -> Any:
        return self.item().child(key).schema.get("default")

    def child(self, field: str) -> Any:
        if self.is_root and field == "metadata":
            return BuiltIn("", "metadata")
        inner = (self.schema.get("properties") or {}).get(field)
        if inner is None:
            extra = self.schema.get("additionalProperties")
            inner = extra if isinstance(extra, dict) else {}
        return Custom(inner)

    def item(self) -> "Custom":
        return Custom(self.schema.get("items") or {})

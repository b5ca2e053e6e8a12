"""How values merge: which maps and lists are one value, which are sets, and by which keys list items are told apart."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from sandbox.apiserver.storage.objects import Json

Kind = Literal["granular", "atomic", "set", "keyed"]


class Topology(Protocol):
    """The merge rules at one place of an object, and the way to those below it."""

    @property
    def kind(self) -> Kind:
        """Granular maps merge field by field; atomic values are replaced whole; lists are one of the others."""
        ...

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields that tell the items of a keyed list apart."""
        ...

    @property
    def implied(self) -> bool:
        """Whether the map here is always there, so that nobody can be said to have added it."""
        ...

    def names(self, field: str) -> bool:
        """Whether a field is one of a struct's, rather than a key in a map."""
        ...

    def default(self, key: str) -> Any:
        """What an absent key of a list item stands for."""
        ...

    def child(self, field: str) -> "Topology":
        """The rules of a field."""
        ...

    def item(self) -> "Topology":
        """The rules of a list's items."""
        ...


_KEYED: Mapping[str, tuple[str, ...]] = {
    # By the field's name alone, or by its parent's and its own where names clash.
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
    """The rules of the built-in kinds, which give the same name the same meaning nearly everywhere."""

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
    def implied(self) -> bool:
        return self.field in _STRUCTS and not self.is_item

    def names(self, field: str) -> bool:
        return self.field not in _MAPS

    def default(self, key: str) -> Any:
        return "TCP" if key == "protocol" else None

    def child(self, field: str) -> Topology:
        # Whatever a map of texts uses as a key ("data", say) means nothing to us.
        return BuiltIn(self.field, field) if self.names(field) else BuiltIn()

    def item(self) -> Topology:
        return BuiltIn(self.parent, self.field, is_item=True)


BUILT_IN = BuiltIn()


@dataclass(frozen=True, slots=True)
class Custom:
    """The rules that a custom resource's schema states."""

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
    def implied(self) -> bool:
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

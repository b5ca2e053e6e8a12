"""Behaviour of kinds: defaults, validation, and fields that writes may change. The base class and simple kinds."""

import base64
from collections.abc import Callable, Iterable
from typing import Any

from plimsoll.labels.syntax import subdomain_fault
from sandbox.apiserver.errors import Cause, Subject, forbidden
from sandbox.apiserver.kinds.syntax import dns_label_fault, path_segment_fault
from sandbox.apiserver.storage.objects import Json, name_of

Objects = Callable[[str], Iterable[Json]]
"""Returns the objects of a collection in all namespaces."""


class Behaviour:
    """Base class: objects are stored as sent."""

    # Whether metadata.generation counts changes of the spec.
    counts_generations = False
    # Whether /status is a subresource.
    has_status = False
    # Whether a write of /status changes metadata: yes for built-in kinds, no for custom ones.
    status_keeps_metadata = False

    def name_fault(self, name: str) -> str:
        """Return why a name is invalid, or an empty string."""
        return subdomain_fault(name)

    def prune(self, obj: Json) -> list[str]:
        """Remove unknown fields and return their paths."""
        return []

    def default(self, obj: Json) -> None:
        """Set defaults."""

    def admit(self, obj: Json, objects: Objects) -> None:
        """Admission: set fields of a new object from other objects. Raises ApiError to reject it."""

    def prepare_create(self, obj: Json, *, now: float) -> None:
        """Set the server's fields of a new object."""
        if self.has_status:
            obj.pop("status", None)

    def prepare_update(self, old: Json, new: Json) -> None:
        """Restore fields that a write of the main resource cannot change."""
        if self.has_status:
            restore(new, old, "status")

    def prepare_status(self, old: Json, new: Json) -> None:
        """Restore all fields but the status."""
        for field in {*old, *new} - {"status", "metadata", "kind", "apiVersion"}:
            restore(new, old, field)
        if self.status_keeps_metadata:
            managed = new["metadata"].get("managedFields")
            new["metadata"] = {**old["metadata"], "managedFields": managed}

    def validate(self, obj: Json) -> list[Cause]:
        """Return all validation errors of an object, except those of its metadata."""
        return []

    def validate_update(self, old: Json, new: Json) -> list[Cause]:
        """Return all validation errors of an update."""
        return []


def as_quantities(amounts: Json | None) -> Json:
    """Return resource amounts as strings, as the API server returns quantities sent as numbers."""
    return {name: str(amount) for name, amount in (amounts or {}).items()}


PLAIN = Behaviour()


def restore(new: Json, old: Json, field: str) -> None:
    """Restore the old value of a field, or its absence."""
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def fill(target: Json, **defaults: Any) -> None:
    """Set absent fields."""
    for field, value in defaults.items():
        if target.get(field) is None:
            target[field] = value


class NamedByRule(Behaviour):
    """A kind whose names need not be DNS subdomains."""

    def __init__(self, rule: Callable[[str], str] = path_segment_fault) -> None:
        self._rule = rule

    def name_fault(self, name: str) -> str:
        return self._rule(name)


class Quotas(Behaviour):
    """ResourceQuotas can be listed, but not created, since the sandbox does not enforce them."""

    def admit(self, obj: Json, objects: Objects) -> None:
        quota = Subject("", "resourcequotas", name_of(obj))
        raise forbidden(quota, "quotas are not enforced in this sandbox")


class Namespaces(Behaviour):
    """Namespaces are Active until deleted and labelled with their name."""

    has_status = True

    def name_fault(self, name: str) -> str:
        return dns_label_fault(name)

    def default(self, obj: Json) -> None:
        name = obj["metadata"]["name"]
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name

    def prepare_create(self, obj: Json, *, now: float) -> None:
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}


class Nodes(Behaviour):
    """Nodes keep the status of a create, since kubelets set it."""

    has_status = True

    def default(self, obj: Json) -> None:
        fill(obj, spec={})
        status = obj.setdefault("status", {})
        for field in ("capacity", "allocatable"):
            if field in status:
                status[field] = as_quantities(status[field])
        if status.get("capacity"):
            fill(status, allocatable=dict(status["capacity"]))

    def prepare_create(self, obj: Json, *, now: float) -> None:
        return


class Secrets(Behaviour):
    """Secrets convert `stringData` to `data`."""

    def default(self, obj: Json) -> None:
        fill(obj, type="Opaque")
        if plain := obj.pop("stringData", None):
            data = {key: _base64(text) for key, text in plain.items()}
            obj["data"] = {**(obj.get("data") or {}), **data}


class Services(Behaviour):
    """The defaults of Services that `kubectl describe` needs."""

    has_status = True

    def default(self, obj: Json) -> None:
        spec = obj.setdefault("spec", {})
        fill(spec, type="ClusterIP", sessionAffinity="None")
        for port in spec.get("ports") or ():
            fill(port, protocol="TCP", targetPort=port.get("port"))
        fill(obj, status={"loadBalancer": {}})


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

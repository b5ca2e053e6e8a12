"""What differs from kind to kind: defaults, rules, and what a write may touch. One class each, the common one here."""

import base64
from collections.abc import Callable, Iterable
from typing import Any

from sandbox.apiserver.errors import Cause, Subject, forbidden
from sandbox.apiserver.kinds.syntax import dns_label_fault, path_segment_fault, subdomain_fault
from sandbox.apiserver.storage.objects import Json, name_of

Objects = Callable[[str], Iterable[Json]]
"""The objects of a collection, of all namespaces."""


class Behaviour:
    """A kind without peculiarities: stored as it comes."""

    # Whether metadata.generation counts the changes of the spec.
    counts_generations = False
    # Whether /status is written apart from the rest.
    has_status = False
    # What `metadata` is to a write of /status: built-in kinds take it, custom ones keep theirs.
    status_keeps_metadata = False

    def name_fault(self, name: str) -> str:
        """Why a name is not allowed; empty if it is."""
        return subdomain_fault(name)

    def prune(self, obj: Json) -> list[str]:
        """Drop fields that the kind does not know, and name them."""
        return []

    def default(self, obj: Json) -> None:
        """Fill in what the client left out."""

    def admit(self, obj: Json, objects: Objects) -> None:
        """Fill in of a new object what others say, or refuse it for what they say: ApiError."""

    def prepare_create(self, obj: Json, *, now: float) -> None:
        """Set what only the server sets on a new object."""
        if self.has_status:
            obj.pop("status", None)

    def prepare_update(self, old: Json, new: Json) -> None:
        """Take back what a write of the main resource may not touch."""
        if self.has_status:
            restore(new, old, "status")

    def prepare_status(self, old: Json, new: Json) -> None:
        """Take back what a write of /status may not touch: all but the status."""
        for field in {*old, *new} - {"status", "metadata", "kind", "apiVersion"}:
            restore(new, old, field)
        if self.status_keeps_metadata:
            managed = new["metadata"].get("managedFields")
            new["metadata"] = {**old["metadata"], "managedFields": managed}

    def validate(self, obj: Json) -> list[Cause]:
        """Everything wrong with an object that is about to be stored, beside its metadata."""
        return []

    def validate_update(self, old: Json, new: Json) -> list[Cause]:
        """Everything wrong with a change."""
        return []


def as_quantities(amounts: Json | None) -> Json:
    """Amounts of resources as texts, which is how a server shows a quantity that came as a number."""
    return {name: str(amount) for name, amount in (amounts or {}).items()}


PLAIN = Behaviour()


def restore(new: Json, old: Json, field: str) -> None:
    """Give a field its old value back, or its absence."""
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def fill(target: Json, **defaults: Any) -> None:
    """Set fields that are absent."""
    for field, value in defaults.items():
        if target.get(field) is None:
            target[field] = value


class Spelled(Behaviour):
    """A plain kind whose names follow another rule than a DNS subdomain's."""

    def __init__(self, rule: Callable[[str], str] = path_segment_fault) -> None:
        self._rule = rule

    def name_fault(self, name: str) -> str:
        return self._rule(name)


class Quotas(Behaviour):
    """There are none, which is asked for often; one that nobody enforces would be a lie."""

    def admit(self, obj: Json, objects: Objects) -> None:
        quota = Subject("", "resourcequotas", name_of(obj))
        raise forbidden(quota, "nobody enforces quotas in this sandbox")


class Namespaces(Behaviour):
    """Active until deleted, and labelled with their own name."""

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
    """A kubelet creates its node with a status, so a create keeps it."""

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
    """`stringData` is a way to write `data`, never stored."""

    def default(self, obj: Json) -> None:
        fill(obj, type="Opaque")
        if plain := obj.pop("stringData", None):
            data = {key: _base64(text) for key, text in plain.items()}
            obj["data"] = {**(obj.get("data") or {}), **data}


class Services(Behaviour):
    """Just enough of a Service for kubectl to describe."""

    has_status = True

    def default(self, obj: Json) -> None:
        spec = obj.setdefault("spec", {})
        fill(spec, type="ClusterIP", sessionAffinity="None")
        for port in spec.get("ports") or ():
            fill(port, protocol="TCP", targetPort=port.get("port"))
        fill(obj, status={"loadBalancer": {}})


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

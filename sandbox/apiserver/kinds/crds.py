"""CustomResourceDefinitions: validation, and the resources that they define."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from plimsoll import rfc3339
from sandbox.apiserver.errors import Cause, invalid_value, required
from sandbox.apiserver.kinds import schema as schemas
from sandbox.apiserver.kinds.behaviour import Behaviour, fill
from sandbox.apiserver.kinds.resource import Conversion, Resource
from sandbox.apiserver.kinds.topology import Custom
from sandbox.apiserver.storage.objects import Json, dig


class CustomResourceDefinitions(Behaviour):
    """CRDs are accepted and established at once, since names cannot conflict."""

    counts_generations = True
    has_status = True

    def default(self, obj: Json) -> None:
        spec = obj.setdefault("spec", {})
        names = spec.setdefault("names", {})
        kind = names.get("kind") or ""
        fill(names, singular=kind.lower(), listKind=f"{kind}List")
        fill(spec, conversion={"strategy": "None"})

    def prepare_create(self, obj: Json, *, now: float) -> None:
        accepted = _condition("NamesAccepted", "NoConflicts", "no conflicts found", now)
        established = _condition(
            "Established", "InitialNamesAccepted", "the initial names have been accepted", now
        )
        stored = [item.get("name") for item in _versions(obj) if item.get("storage")]
        obj["status"] = {
            "conditions": [accepted, established],
            "acceptedNames": obj["spec"]["names"],
            "storedVersions": stored,
        }

    def validate(self, obj: Json) -> list[Cause]:
        return [*_spec_faults(obj), *_version_faults(_versions(obj))]

    def validate_update(self, old: Json, new: Json) -> list[Cause]:
        return [
            invalid_value(f"spec.{'.'.join(path)}", dig(new, "spec", *path), "field is immutable")
            for path in (("group",), ("scope",), ("names", "plural"), ("names", "kind"))
            if dig(old, "spec", *path) != dig(new, "spec", *path)
        ]


def _versions(crd: Json) -> list[Json]:
    return dig(crd, "spec", "versions") or []


def _condition(kind: str, reason: str, message: str, now: float) -> Json:
    return {
        "type": kind,
        "status": "True",
        "lastTransitionTime": rfc3339.seconds(now),
        "reason": reason,
        "message": message,
    }


def _spec_faults(crd: Json) -> Iterator[Cause]:
    spec = crd["spec"]
    for path in (("group",), ("scope",), ("names", "plural"), ("names", "kind")):
        if not dig(spec, *path):
            yield required(f"spec.{'.'.join(path)}")
    name = f"{dig(spec, 'names', 'plural')}.{spec.get('group')}"
    if crd["metadata"]["name"] != name:
        why = 'must be spec.names.plural+"."+spec.group'
        yield invalid_value("metadata.name", crd["metadata"]["name"], why)
    if sum(1 for version in _versions(crd) if version.get("storage")) != 1:
        why = "must have exactly one version marked as storage version"
        yield invalid_value("spec.versions", [item.get("name") for item in _versions(crd)], why)


def _version_faults(versions: list[Json]) -> Iterator[Cause]:
    for index, version in enumerate(versions):
        if not version.get("name"):
            yield required(f"spec.versions[{index}].name")
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        schema = dig(version, "schema", "openAPIV3Schema")
        if schema is None:
            yield required(path, "schemas are required")
            continue
        if schema.get("type") != "object":
            why = "must be object at the root"
            yield invalid_value(f"{path}.type", schema.get("type", ""), why)
        yield from schemas.schema_faults(schema, path)


class CustomResources(Behaviour):
    """Objects with a CRD's schema."""

    counts_generations = True
    status_keeps_metadata = True

    def __init__(self, schema: Json, *, has_status: bool) -> None:
        self._schema = schema
        self.has_status = has_status

    def prune(self, obj: Json) -> list[str]:
        return schemas.prune(obj, self._schema)

    def default(self, obj: Json) -> None:
        schemas.apply_defaults(obj, self._schema)

    def validate(self, obj: Json) -> list[Cause]:
        return list(schemas.validate(obj, self._schema))


def served(crd: Json) -> list[Resource]:
    """Return the resources of a CRD, one per served version."""
    return [_resource(crd, version) for version in _versions(crd) if version.get("served")]


def _resource(crd: Json, version: Json) -> Resource:
    spec = crd["spec"]
    names = spec["names"]
    schema = version["schema"]["openAPIV3Schema"]
    subresources = version.get("subresources") or {}
    return Resource(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=("status",) if "status" in subresources else (),
        fields=tuple(
            item["jsonPath"].removeprefix(".") for item in version.get("selectableFields") or ()
        ),
        behaviour=CustomResources(schema, has_status="status" in subresources),
        topology=Custom(schema, is_root=True),
        conversion=None if version.get("storage") else _renaming(spec, version["name"]),
        singular=names["singular"],
        list_kind=names["listKind"],
        schema=schema,
        printer_columns=tuple(version.get("additionalPrinterColumns") or ()),
    )


@dataclass(frozen=True, slots=True)
class _Renamed:
    """Conversion strategy None: versions differ only in apiVersion."""

    api_version: str

    def __call__(self, obj: Json) -> Json:
        return {**obj, "apiVersion": self.api_version}


def _renaming(spec: Json, version: str) -> Conversion:
    stored: Any = next(item["name"] for item in spec["versions"] if item.get("storage"))
    return Conversion(
        collection=f"{spec['names']['plural']}.{spec['group']}",
        to_stored=_Renamed(f"{spec['group']}/{stored}"),
        from_stored=_Renamed(f"{spec['group']}/{version}"),
    )

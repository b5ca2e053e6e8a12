"""Parses request paths, queries and headers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sandbox.apiserver.errors import bad_request, no_such_path, not_acceptable
from sandbox.apiserver.kinds.resource import Resource
from sandbox.apiserver.kinds.resources import Registry
from sandbox.apiserver.storage.lists import ListQuery
from sandbox.apiserver.storage.objects import Key
from sandbox.apiserver.storage.selectors import Selector, select
from sandbox.apiserver.writes.writes import WriteOptions

Form = Literal["object", "table", "partial"]
_CLUSTER_SUBRESOURCES = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a path: a collection, an object or a subresource."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> Key:
        """Return the object's namespace and name."""
        return self.namespace, self.name


def locate(registry: Registry, path: str) -> Target:
    """Return the target of a path below /api/v1 or /apis/<group>/<version>. Raises a 404 if it is not served."""
    parts = path.strip("/").split("/")
    if parts[:2] == ["api", "v1"]:
        group, version, rest = "", "v1", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        (_, group, version), rest = parts[:3], parts[3:]
    else:
        raise no_such_path()
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in _CLUSTER_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    resource = registry.find(group, version, rest[0]) if rest else None
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise no_such_path()
    name, subresource = (*rest[1:], "", "")[:2]
    if name and resource.namespaced and not namespace:
        raise no_such_path()
    if subresource and subresource not in resource.subresources:
        raise no_such_path()
    return Target(resource, namespace, name, subresource)


def selector(target: Target, query: Mapping[str, str]) -> Selector:
    """Return the selector of a list, watch or deletecollection."""
    fields = query.get("fieldSelector", "")
    if target.name:
        fields = f"{fields},metadata.name={target.name}".lstrip(",")
    return select(
        query.get("labelSelector", ""),
        fields,
        supported=target.resource.selectable,
    )


def list_query(target: Target, query: Mapping[str, str]) -> ListQuery:
    """Return the options of a list."""
    return ListQuery(
        selector=selector(target, query),
        limit=number(query, "limit"),
        token=query.get("continue", ""),
        revision=query.get("resourceVersion", ""),
        exact=query.get("resourceVersionMatch") == "Exact",
    )


def number(query: Mapping[str, str], name: str) -> int:
    """Return a number of the query; 0 if absent."""
    text = query.get(name) or "0"
    if not (text.isascii() and text.isdigit()):
        raise bad_request(f"invalid {name}: {text!r} is not a number")
    return int(text)


def flag(query: Mapping[str, str], name: str) -> bool:
    """Return a boolean of the query, parsed as in Go."""
    return query.get(name, "") in {"1", "t", "T", "true", "TRUE", "True"}


def write_options(target: Target, query: Mapping[str, str], user_agent: str) -> WriteOptions:
    """Return the options of a write."""
    validation = query.get("fieldValidation") or "Warn"
    if validation not in {"Ignore", "Warn", "Strict"}:
        raise bad_request(f'fieldValidation: Unsupported value: "{validation}"')
    if query.get("dryRun") not in {None, "", "All"}:
        raise bad_request(
            f'dryRun: Unsupported value: "{query["dryRun"]}": supported values: "All"'
        )
    manager = query.get("fieldManager") or user_agent.partition("/")[0] or "unknown"
    return WriteOptions(
        manager=manager[:128],
        dry_run=query.get("dryRun") == "All",
        validation=validation,  # type: ignore[arg-type]
        force=flag(query, "force"),
        subresource=target.subresource,
    )


def wanted_form(accept: str) -> Form:
    """Return the requested form of objects. Raises a 406 if the client does not accept JSON."""
    for choice in accept.split(",") if accept else ["*/*"]:
        media_type, *parameters = (part.strip() for part in choice.split(";"))
        if media_type not in {"application/json", "application/*", "*/*"}:
            continue
        options = dict(parameter.partition("=")[::2] for parameter in parameters)
        if options.get("as") == "Table":
            return "table"
        if options.get("as", "").startswith("PartialObjectMetadata"):
            return "partial"
        if "as" not in options:
            return "object"
    raise not_acceptable()

"""Field ownership: maintains metadata.managedFields on every write, and implements server-side apply."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sandbox.apiserver.errors import ApiError, Cause, bad_request
from sandbox.apiserver.kinds.resource import Resource
from sandbox.apiserver.kinds.topology import Topology
from sandbox.apiserver.storage.objects import Json, Key, meta, name_of
from sandbox.apiserver.writes import fieldsets
from sandbox.apiserver.writes.decoding import decode
from sandbox.apiserver.writes.fieldsets import Fields

Operation = Literal["Apply", "Update"]


class Identity(NamedTuple):
    """The key of an entry of managedFields. Apply entries do not depend on the version."""

    operation: str
    manager: str
    api_version: str
    subresource: str


@dataclass(frozen=True, slots=True)
class Entry:
    """The manager, operation and time of a write."""

    manager: str
    operation: Operation
    api_version: str
    subresource: str
    time: str

    @property
    def identity(self) -> Identity:
        """Return its key among the entries."""
        version = "" if self.operation == "Apply" else self.api_version
        return Identity(self.operation, self.manager, version, self.subresource)


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
Managed = Mapping[Identity, tuple[Entry, Fields]]
Recorder = Callable[[Resource, Json | None, Json, Entry], None]
"""Sets managedFields of a new object, given the old one (None for a create) and the entry of the write."""

# Set by the server, so never owned. The rest of metadata is labels, annotations, owners and finalizers.
_UNOWNED = Fields(
    frozenset({"f:apiVersion", "f:kind", "f:metadata"}),
    {
        "f:metadata": Fields(
            frozenset(
                f"f:{name}"
                for name in (
                    "name", "namespace", "creationTimestamp", "selfLink", "uid", "generation",
                    "managedFields", "resourceVersion",
                )
            )
        )
    },
)  # fmt: skip


def _ownable(fields: Fields, resource: Resource, entry: Entry) -> Fields:
    """Return the fields that a write owns: of a status only if it is written by its subresource."""
    ownable = fields - _UNOWNED
    apart = resource.behaviour.has_status and entry.subresource != "status"
    return ownable.beside("f:status") if apart else ownable


def keep(resource: Resource, old: Json | None, new: Json, entry: Entry) -> None:
    """Record nothing: the object already has its managedFields."""


def updated(resource: Resource, old: Json | None, new: Json, entry: Entry) -> None:
    """Record a create, update or patch: the writer becomes the only owner of the changed fields."""
    given = new["metadata"].pop("managedFields", None)
    if old is None:
        managed: Managed = {}
    elif _is_reset(given) and not entry.subresource:
        # No field has an owner until the next apply.
        return
    else:
        managed = _given_or_old(given, old, entry)
        if not managed:
            return
    changed, removed = fieldsets.compare(old or {}, new, resource.topology)
    managed = _claim(managed, entry, _ownable(changed, resource, entry), removed)
    _write(new, managed, unless=old)


def _is_reset(given: Any) -> bool:
    return given in ([], [{}])


def _given_or_old(given: Any, old: Json, entry: Entry) -> Managed:
    live = meta(old).get("managedFields") or []
    if entry.subresource or given is None:
        return _read(live)
    try:
        return _read(given)
    except (ValueError, KeyError, TypeError, AttributeError):
        return _read(live)


def _claim(managed: Managed, entry: Entry, changed: Fields, removed: Fields) -> Managed:
    if not changed and not removed:
        return managed
    claimed = {
        identity: (owner, owned - removed - changed) for identity, (owner, owned) in managed.items()
    }
    before = managed[entry.identity][1] if entry.identity in managed else fieldsets.EMPTY
    after = (before - removed) | changed
    claimed[entry.identity] = entry, after
    return claimed


def _dated(managed: Managed, entry: Entry, owned: Fields) -> Entry:
    """Return the entry of an apply, with the earlier time if it owns the same fields."""
    if entry.identity not in managed or managed[entry.identity][1] != owned:
        return entry
    return dataclasses.replace(entry, time=managed[entry.identity][0].time)


def record_applied(resource: Resource, config: Json) -> Recorder:
    """Return a recorder for an object created by apply: the applier owns the configured fields; defaults have no owner."""
    owned = fieldsets.claimed(config, resource.topology) - _UNOWNED

    def record(resource: Resource, old: Json | None, new: Json, entry: Entry) -> None:
        applier = dataclasses.replace(entry, operation="Apply")
        _write(new, {applier.identity: (applier, owned)}, unless=None)

    return record


def configuration(resource: Resource, key: Key, body: Any) -> Json:
    """Return the object of an apply's body: the fields that the applier wants to own."""
    if not isinstance(body, dict) or not body.get("apiVersion") or not body.get("kind"):
        raise bad_request("couldn't get version/kind: an applied configuration states both")
    _check_texts(resource, key, body)
    config = decode(resource, body)
    if "managedFields" in config["metadata"]:
        raise bad_request("metadata.managedFields must be nil")
    config["metadata"].setdefault("name", key[1])
    if (name := name_of(config)) != key[1]:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({key[1]})"
        )
    return config


def _check_texts(resource: Resource, key: Key, body: Json) -> None:
    # For a number in place of a string, a real server returns a 500.
    for field in ("labels", "annotations"):
        for name, value in (meta(body).get(field) or {}).items():
            if value is not None and not isinstance(value, str):
                raise ApiError(
                    500,
                    "InternalError",
                    f"failed to create typed patch object ({'/'.join(key)}; "
                    f"{resource.api_version}, Kind={resource.kind}): "
                    f".metadata.{field}.{name}: expected string, got {json.dumps(value)}",
                )


def merged(resource: Resource, current: Json, config: Json, entry: Entry, *, force: bool) -> Json:
    """Return the object after an apply, with managedFields. Raises a 409 on conflicts with other owners."""
    topology = resource.topology
    live = _read(meta(current).get("managedFields") or []) or _before_first_apply(
        resource, current, entry
    )
    last = live[entry.identity][1] if entry.identity in live else fieldsets.EMPTY
    owned = fieldsets.claimed(config, topology) - _UNOWNED
    managed = {**live, entry.identity: (_dated(live, entry, owned), owned)}

    obj: Json = fieldsets.merge(current, config, topology)
    if last:
        obj = _pruned(obj, managed, last, topology)
    changed, removed = fieldsets.compare(current, obj, topology)
    if changed or removed:
        managed[entry.identity] = entry, owned
    conflicts = [
        (owner, owned_by & changed - _UNOWNED)
        for identity, (owner, owned_by) in sorted(managed.items())
        if identity != entry.identity
    ]
    allowed = (
        _client_side_applied(current, topology) if entry.manager == "kubectl" else fieldsets.EMPTY
    )
    if not force and any(taken - allowed for _, taken in conflicts):
        raise _conflict([(owner, taken - allowed) for owner, taken in conflicts])
    for identity, (owner, owned_by) in list(managed.items()):
        if identity != entry.identity:
            managed[identity] = (owner, owned_by - changed - removed)
    obj["metadata"] = dict(meta(obj))
    _write(obj, managed, unless=current)
    return obj


def _before_first_apply(resource: Resource, current: Json, entry: Entry) -> Managed:
    """Return one owner of all fields, if no ownership is recorded."""
    everything = fieldsets.all_of(current, resource.topology) - _UNOWNED
    owner = dataclasses.replace(
        entry, manager="before-first-apply", operation="Update", subresource=""
    )
    return {owner.identity: (owner, everything)}


def _pruned(obj: Json, managed: Managed, last: Fields, topology: Topology) -> Json:
    """Return the object without fields that this applier owned and that now have no owner."""
    # A container stays while others own fields in it, and is removed whole otherwise.
    owned = fieldsets.EMPTY
    for _, owned_by in managed.values():
        owned = owned | owned_by
    gone = fieldsets.with_containers(last, topology) - fieldsets.with_containers(owned, topology)
    pruned: Json = fieldsets.without(obj, gone - _UNOWNED, topology)
    return pruned


def _client_side_applied(current: Json, topology: Topology) -> Fields:
    """Return the fields of the last client-side `kubectl apply` that are unchanged; server-side apply may take them."""
    text = (meta(current).get("annotations") or {}).get(LAST_APPLIED)
    try:
        stated = json.loads(text or "{}")
    except ValueError:
        return fieldsets.EMPTY
    changed, _ = fieldsets.compare(current, fieldsets.merge(current, stated, topology), topology)
    return fieldsets.claimed(stated, topology) - changed


def _conflict(conflicts: list[tuple[Entry, Fields]]) -> ApiError:
    owned_paths = [(_called(owner), path) for owner, taken in conflicts for path in taken.paths()]
    causes = [
        Cause("FieldManagerConflict", f"conflict with {owner}", path) for owner, path in owned_paths
    ]
    if len(owned_paths) == 1:
        text = (
            f"Apply failed with 1 conflict: conflict with {owned_paths[0][0]}: {owned_paths[0][1]}"
        )
    else:
        text = f"Apply failed with {len(owned_paths)} conflicts: {_listed(owned_paths)}"
    return ApiError(409, "Conflict", text, causes=causes)


def _listed(owned_paths: Iterable[tuple[str, str]]) -> str:
    by_owner: dict[str, list[str]] = {}
    for owner, path in owned_paths:
        by_owner.setdefault(owner, []).append(f"- {path}")
    return "\n".join(
        line
        for owner in sorted(by_owner)
        for line in (f"conflicts with {owner}:", *by_owner[owner])
    )


def _called(owner: Entry) -> str:
    called = f'"{owner.manager}"'
    if owner.subresource:
        called += f' with subresource "{owner.subresource}"'
    return f"{called} using {owner.api_version}" if owner.operation == "Update" else called


def _read(encoded: Iterable[Json]) -> dict[Identity, tuple[Entry, Fields]]:
    managed = {}
    for item in encoded:
        entry = Entry(
            manager=str(item["manager"]),
            operation="Apply" if item["operation"] == "Apply" else "Update",
            api_version=str(item["apiVersion"]),
            subresource=str(item.get("subresource", "")),
            time=str(item.get("time", "")),
        )
        managed[entry.identity] = (entry, fieldsets.decode(item["fieldsV1"]))
    return managed


def _write(obj: Json, managed: Managed, *, unless: Json | None) -> None:
    encoded = [
        _encode(entry, owned)
        for _, (entry, owned) in sorted(
            managed.items(), key=lambda item: (item[0][0], item[1][0].time, item[0])
        )
        if owned
    ]
    # An untracked object stays one without the field rather than with an empty one.
    if encoded or (unless and "managedFields" in meta(unless)):
        obj["metadata"]["managedFields"] = encoded


def _encode(entry: Entry, owned: Fields) -> Json:
    encoded = {
        "manager": entry.manager,
        "operation": entry.operation,
        "apiVersion": entry.api_version,
        "time": entry.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": owned.encode(),
    }
    return encoded | ({"subresource": entry.subresource} if entry.subresource else {})

"""Creates, replaces and patches objects, applying all rules between request and store."""

import dataclasses
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from plimsoll import rfc3339
from sandbox.apiserver.cluster import Cluster
from sandbox.apiserver.errors import (
    STALE,
    Cause,
    already_exists,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    unsupported_media_type,
)
from sandbox.apiserver.kinds.resource import Resource
from sandbox.apiserver.kinds.syntax import metadata_faults
from sandbox.apiserver.storage.objects import Json, Key, meta, name_of
from sandbox.apiserver.storage.store import Record
from sandbox.apiserver.writes import apply as ownership
from sandbox.apiserver.writes.decoding import decode
from sandbox.apiserver.writes.patch import json_patch, merge_patch, strategic_merge_patch

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_SET_BY_SERVER = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a write."""

    manager: str = "unknown"
    dry_run: bool = False
    validation: Literal["Ignore", "Warn", "Strict"] = "Warn"
    force: bool = False
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a write: HTTP code, the object in its stored version, and warnings."""

    code: int
    obj: Json
    warnings: tuple[str, ...] = ()


class Writer:
    """Writes into one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def create(
        self, resource: Resource, namespace: str, body: Any, options: WriteOptions
    ) -> WriteResult:
        """Create an object."""
        obj = decode(resource, body)
        metadata = obj["metadata"]
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        _place(resource, metadata, namespace)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + "".join(
                secrets.choice(_SUFFIX) for _ in range(5)
            )
        metadata.pop("managedFields", None)
        return self._insert(resource, obj, options, ownership.updated)

    def _insert(
        self, resource: Resource, obj: Json, options: WriteOptions, own: ownership.Recorder
    ) -> WriteResult:
        cluster, metadata = self._cluster, obj["metadata"]
        name, namespace = metadata.get("name") or "", metadata.get("namespace") or ""
        cluster.require_namespace(resource, namespace, name)
        if name and cluster.store.get(resource.collection, (namespace, name)):
            raise already_exists(resource.subject(name))
        now = cluster.clock()
        for field in _SET_BY_SERVER:
            metadata.pop(field, None)
        metadata |= {"uid": cluster.new_uid(), "creationTimestamp": rfc3339.seconds(now)}
        if resource.behaviour.counts_generations:
            metadata["generation"] = 1
        warnings = _prune(resource, obj, options)
        if name:
            resource.behaviour.default(obj)
            resource.behaviour.admit(obj, cluster.objects)
            resource.behaviour.prepare_create(obj, now=now)
        self._validate(resource, obj, [] if name else None)
        own(resource, None, obj, self._entry(resource, options))
        if not options.dry_run:
            cluster.store.put(resource.collection, (namespace, name), obj)
        return WriteResult(201, obj, warnings)

    def update(self, resource: Resource, key: Key, body: Any, options: WriteOptions) -> WriteResult:
        """Replace an object, or its status."""
        obj = decode(resource, body)
        _place(resource, obj["metadata"], key[0])
        if name_of(obj) != key[1]:
            raise bad_request(
                f"the name of the object ({name_of(obj)}) does not match the name on the URL ({key[1]})"
            )
        current = self._cluster.find(resource, key)
        wanted, have = meta(obj).get("uid"), meta(current.obj)["uid"]
        if wanted and wanted != have:
            why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {have}"
            raise conflict(resource.subject(key[1]), why)
        return self.replace(resource, current, obj, options)

    def patch(
        self, resource: Resource, key: Key, patch: Any, media_type: str, options: WriteOptions
    ) -> WriteResult:
        """Patch an object or its status, with any patch type except apply."""
        change = _patcher(resource, media_type)
        current = self._cluster.find(resource, key)
        patched = change(resource.from_stored(json.loads(current.json)), patch)
        obj = decode(resource, patched)
        _place(resource, obj["metadata"], key[0])
        if name_of(obj) != key[1]:
            why = "field is immutable"
            causes = [invalid_value("metadata.name", name_of(obj), why)]
            raise invalid(resource.subject(key[1]), causes)
        return self.replace(resource, current, obj, options)

    def apply(self, resource: Resource, key: Key, body: Any, options: WriteOptions) -> WriteResult:
        """Server-side apply: set the fields of a configuration and own them."""
        config = ownership.configuration(resource, key, body)
        warnings = _prune(resource, config, options)
        outcome = self._apply(resource, key, config, options)
        return dataclasses.replace(outcome, warnings=warnings)

    def _apply(
        self, resource: Resource, key: Key, config: Json, options: WriteOptions
    ) -> WriteResult:
        current = self._cluster.store.get(resource.collection, key)
        if current is not None:
            merged = ownership.merged(
                resource,
                json.loads(current.json),
                config,
                self._entry(resource, options, "Apply"),
                force=options.force,
            )
            return self.replace(resource, current, merged, options, ownership.keep)
        if options.subresource:
            self._cluster.find(resource, key)
        if uid := meta(config).get("uid"):
            why = (
                f"uid mismatch: the provided object specified uid {uid}, "
                "and no existing object was found"
            )
            raise conflict(resource.subject(key[1]), why)
        _place(resource, config["metadata"], key[0])
        return self._insert(resource, config, options, ownership.record_applied(resource, config))

    def replace(
        self,
        resource: Resource,
        current: Record,
        obj: Json,
        options: WriteOptions,
        own: ownership.Recorder = ownership.updated,
    ) -> WriteResult:
        """Replace an object by the rules of its kind. An unchanged object is not written."""
        old = current.obj
        _check_revision(resource, old, obj)
        immutable = self._restore_server_fields(old, obj)
        behaviour = resource.behaviour
        warnings = _prune(resource, obj, options)
        behaviour.default(obj)
        if options.subresource == "status":
            behaviour.prepare_status(old, obj)
        else:
            behaviour.prepare_update(old, obj)
        self._validate(resource, obj, [*immutable, *behaviour.validate_update(old, obj)])
        if behaviour.counts_generations and _spec_differs(resource, old, obj):
            obj["metadata"]["generation"] = meta(old).get("generation", 1) + 1
        own(resource, old, obj, self._entry(resource, options))
        if obj == old:
            return WriteResult(200, old, warnings)
        if not options.dry_run:
            self._commit(resource, obj)
        return WriteResult(200, obj, warnings)

    def put_part(
        self, resource: Resource, current: Record, obj: Json, options: WriteOptions
    ) -> None:
        """Store the result of an action, which may break rules for clients."""
        ownership.updated(resource, current.obj, obj, self._entry(resource, options))
        if obj != current.obj and not options.dry_run:
            self._commit(resource, obj)

    def _commit(self, resource: Resource, obj: Json) -> None:
        metadata = meta(obj)
        key = (metadata.get("namespace") or "", metadata["name"])
        held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") and not held:
            self._cluster.store.remove(resource.collection, key, obj)
        else:
            self._cluster.store.put(resource.collection, key, obj)

    def _restore_server_fields(self, old: Json, obj: Json) -> list[Cause]:
        """Restore fields that clients cannot change, and return the error of a changed uid."""
        metadata, before = obj["metadata"], meta(old)
        causes = []
        if (uid := metadata.get("uid")) and uid != before["uid"]:
            causes.append(invalid_value("metadata.uid", uid, "field is immutable"))
        for field in (*_SET_BY_SERVER, "resourceVersion"):
            metadata.pop(field, None)
            if field in before:
                metadata[field] = before[field]
        return causes

    def _validate(self, resource: Resource, obj: Json, causes: list[Cause] | None) -> None:
        faults = metadata_faults(obj["metadata"], name_fault=resource.behaviour.name_fault)
        if causes is not None:
            faults += [*resource.behaviour.validate(obj), *causes]
        if faults:
            raise invalid(resource.subject(name_of(obj)), faults)

    def _entry(
        self,
        resource: Resource,
        options: WriteOptions,
        operation: Literal["Apply", "Update"] = "Update",
    ) -> ownership.Entry:
        return ownership.Entry(
            manager=options.manager,
            operation=operation,
            api_version=resource.api_version,
            subresource=options.subresource,
            time=rfc3339.seconds(self._cluster.clock()),
        )


def _place(resource: Resource, metadata: Json, namespace: str) -> None:
    """Set an object's namespace to that of the URL."""
    if not resource.namespaced:
        metadata.pop("namespace", None)
    elif (given := metadata.get("namespace") or namespace) != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request: "
            f"{given} is not {namespace}"
        )
    else:
        metadata["namespace"] = namespace


def _check_revision(resource: Resource, old: Json, new: Json) -> None:
    given = new["metadata"].get("resourceVersion")
    if given and given != meta(old)["resourceVersion"]:
        raise conflict(resource.subject(name_of(old)), STALE)


def _prune(resource: Resource, obj: Json, options: WriteOptions) -> tuple[str, ...]:
    lost = resource.behaviour.prune(obj)
    if not lost or options.validation == "Ignore":
        return ()
    notes = [f'unknown field "{path}"' for path in lost]
    if options.validation == "Strict":
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: strict decoding error: {', '.join(notes)}"
        )
    return tuple(notes)


def _spec_differs(resource: Resource, old: Json, new: Json) -> bool:
    apart = {"metadata", "status"} if resource.behaviour.has_status else {"metadata"}
    fields = {*old, *new} - apart
    return any(old.get(field) != new.get(field) for field in fields)


def _patcher(resource: Resource, media_type: str) -> Callable[[Json, Any], Json]:
    match media_type:
        case "application/json-patch+json":
            return json_patch
        case "application/merge-patch+json":
            return merge_patch
        case "application/strategic-merge-patch+json" if not resource.is_custom:
            return strategic_merge_patch
    allowed = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    raise unsupported_media_type(allowed if resource.is_custom else [*allowed, STRATEGIC_PATCH])

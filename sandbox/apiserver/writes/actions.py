"""Subresources that are actions: binding, eviction, scale."""

import json
from typing import Any

from sandbox.apiserver.cluster import Cluster
from sandbox.apiserver.errors import ApiError, bad_request, method_not_allowed, success
from sandbox.apiserver.kinds.disruption import check_eviction, matching
from sandbox.apiserver.kinds.pods import bind
from sandbox.apiserver.kinds.resource import Resource
from sandbox.apiserver.kinds.shapes import without_nulls
from sandbox.apiserver.kinds.workloads import scale_of, scaled
from sandbox.apiserver.storage.objects import Json, Key, dig, meta, name_of, with_condition
from sandbox.apiserver.writes.deletion import Remover, delete_options
from sandbox.apiserver.writes.patch import json_patch, merge_patch
from sandbox.apiserver.writes.writes import APPLY_PATCH, JSON_PATCH, WriteOptions, Writer


class Actions:
    """Actions on objects."""

    def __init__(self, cluster: Cluster, writer: Writer, remover: Remover) -> None:
        self._cluster = cluster
        self._writer = writer
        self._remover = remover

    def create(self, resource: Resource, key: Key, body: Any, options: WriteOptions) -> Json:
        """Handle POST of a subresource."""
        if not isinstance(body, dict):
            raise bad_request("the body is not an object")
        body = without_nulls(body)
        if (name := name_of(body)) and name != key[1]:
            raise bad_request(
                f"name in URL does not match name in {options.subresource} object: {name}"
            )
        match options.subresource:
            case "binding":
                self._bind(resource, key, body, options)
            case "eviction":
                self._evict(resource, key, body, options)
            case _:
                raise method_not_allowed()
        return success(resource.subject(), code=201) | {"details": {}}

    def _bind(self, resource: Resource, key: Key, binding: Json, options: WriteOptions) -> None:
        current = self._cluster.find(resource, key)
        pod = json.loads(current.json)
        bind(pod, binding, now=self._cluster.clock())
        self._writer.put_part(resource, current, pod, options)

    def _evict(self, resource: Resource, key: Key, eviction: Json, options: WriteOptions) -> None:
        current = self._cluster.find(resource, key)
        budgets = list(self._cluster.objects("poddisruptionbudgets.policy", key[0]))
        check_eviction(current.obj, matching(budgets, current.obj))
        how = delete_options(eviction.get("deleteOptions"), {})
        if options.dry_run or how.dry_run:
            return
        pod = json.loads(current.json)
        target_condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        status = pod.setdefault("status", {})
        status["conditions"] = with_condition(
            status.get("conditions"), target_condition, now=self._cluster.clock()
        )
        if not meta(pod).get("deletionTimestamp"):
            self._writer.put_part(resource, current, pod, options)
        self._remover.delete(resource, key, how)

    def scale(self, resource: Resource, key: Key) -> Json:
        """Handle GET of a scale."""
        return scale_of(self._cluster.find(resource, key).obj)

    def set_scale(self, resource: Resource, key: Key, body: Any, options: WriteOptions) -> Json:
        """Handle PUT of a scale."""
        if not isinstance(body, dict) or dig(body, "kind") != "Scale":
            raise bad_request("the object in the request is not an autoscaling/v1 Scale")
        current = self._cluster.find(resource, key)
        obj = scaled(json.loads(current.json), body)
        return scale_of(self._writer.replace(resource, current, obj, options).obj)

    def patch_scale(
        self, resource: Resource, key: Key, patch: Any, media_type: str, options: WriteOptions
    ) -> Json:
        """Handle PATCH of a scale. On this flat object, strategic and apply patches act as merge patches."""
        if media_type == APPLY_PATCH and not isinstance(patch, dict):
            raise ApiError(400, "BadRequest", "an applied configuration is an object")
        change = json_patch if media_type == JSON_PATCH else merge_patch
        return self.set_scale(resource, key, change(self.scale(resource, key), patch), options)

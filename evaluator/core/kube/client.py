"""The Kubernetes API as the evaluator uses it: every call that RBAC must permit."""

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar

import aiohttp
import msgspec

from evaluator.core.kube.connection import KubeConnection
from evaluator.core.kube.resources import (
    NODES,
    APIResource,
    ObjectList,
    Page,
    config_maps_path,
    events_path,
    leases_path,
    placed,
    pods_path,
    secrets_path,
    segment,
)
from evaluator.core.kube.transport import APISession, KubeError, lines, whole
from evaluator.core.model.api_status import AccessReview, AccessReviewed, TokenReview, TokenReviewed
from evaluator.core.model.names import UNREADABLE, PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.model.node_labels import FIELD_MANAGER, LabelApply
from evaluator.core.model.pod import Pod
from plimsoll import rfc3339

T = TypeVar("T")

WATCH_GRACE = 15.0
"""Seconds between the end of a watch at the server and its end here if the server does not respond."""


class Kube:
    """One API server. All methods raise KubeError."""

    def __init__(self, connection: KubeConnection) -> None:
        self._connection = connection
        self._session = APISession(connection)
        self.fence: Callable[[], contextlib.AbstractAsyncContextManager[None]] = (
            contextlib.nullcontext
        )
        """Context of each write except those of the Lease: `WriteFence.write`. Raises KubeError to reject the write."""

    @classmethod
    async def connect(cls, kubeconfig: str) -> "Kube":
        """Use a kubeconfig file if given, else the pod's service account, else ~/.kube/config.

        Nothing is sent yet. Raises ConfigError.
        """
        return cls(await KubeConnection.open(kubeconfig))

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()

    async def list_page(self, resource: APIResource, more: str = "") -> Page:
        """One page of a list; `more` is the continue token of the previous page."""
        query = {"limit": str(resource.page), "continue": more, **resource.selection}
        body = await self._session.request("GET", resource.path, query)
        decoded = _decode(body, ObjectList, f"GET {resource.path}")
        meta = decoded.metadata
        return Page(decoded.items or [], meta.resource_version, meta.continue_)

    async def pages(self, resource: APIResource) -> AsyncIterator[Page]:
        """Yield the pages of a list. One that the caller has deleted is freed before the next request: it has megabytes."""
        more = ""
        while True:
            page = await self.list_page(resource, more)
            more = page.more
            yield page
            del page
            if not more:
                return

    async def watch(
        self,
        resource: APIResource,
        resource_version: str,
        *,
        timeout: float,
        grace: float = WATCH_GRACE,
        opened: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[bytes]:
        """Watch events after a resourceVersion, one JSON document each, until the server ends the watch.

        The server ends it after `timeout` seconds. One that does not, `grace` seconds later, is unreachable: raises KubeError.
        `opened` is called after the response header.
        """
        seconds = max(1, int(timeout))  # 0 would leave the timeout to the server
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
            **resource.selection,
        }
        limit = aiohttp.ClientTimeout(total=seconds + grace, sock_connect=10)
        response = await self._session.send("GET", resource.path, query, timeout=limit)
        opened()
        async for line in lines(response, f"watch of {resource.name}"):
            yield line

    async def apply_node_labels(self, apply: LabelApply) -> Node:
        """Set the labels owned by Plimsoll on a node to `apply.labels`, by server-side apply.

        The uid is part of it: an apply without one would recreate a deleted node.
        """
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": apply.node, "uid": apply.uid, "labels": dict(apply.labels)},
        }
        path = f"{NODES.path}/{segment(apply.node)}"
        raw = await self._write(
            "PATCH",
            path,
            {"fieldManager": FIELD_MANAGER},
            body=body,
            content_type="application/apply-patch+yaml",
        )
        return _decode(raw, Node, f"PATCH {path}")

    async def apply_node_annotations(
        self, node: Node, annotations: Mapping[str, str], manager: str
    ) -> Node:
        """Set the annotations owned by a field manager on a node as read; 409 if the node has changed since."""
        meta = node.metadata
        named = {"name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version}
        path = f"{NODES.path}/{segment(meta.name)}"
        raw = await self._write(
            "PATCH",
            path,
            {"fieldManager": manager, "force": "true"},
            body={
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {**named, "annotations": dict(annotations)},
            },
            content_type="application/apply-patch+yaml",
        )
        return _decode(raw, Node, f"PATCH {path}")

    async def apply_node_conditions(
        self,
        name: str,
        uid: str,
        conditions: Sequence[Mapping[str, Any]],
        *,
        manager: str = FIELD_MANAGER,
    ) -> Node:
        """Set the conditions that a field manager of ours owns on a node, by server-side apply; 409 if another manager owns one.

        There must be one at least: an apply without any would also remove fields of the status that have no owner.
        """
        if not conditions:
            raise ValueError("no conditions: remove the last one by patch_node_status()")
        path = f"{NODES.path}/{segment(name)}/status"
        raw = await self._write(
            "PATCH",
            path,
            {"fieldManager": manager},
            body={
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "uid": uid},
                "status": {"conditions": list(conditions)},
            },
            content_type="application/apply-patch+yaml",
        )
        return _decode(raw, Node, f"PATCH {path}")

    async def patch_node(
        self, name: str, operations: Sequence[Mapping[str, Any]], *, subresource: str = ""
    ) -> Node:
        """Change a node by a JSON patch (RFC 6902), atomically; 422 if one of its tests fails."""
        path = f"{NODES.path}/{segment(name)}{subresource}"
        raw = await self._write(
            "PATCH",
            path,
            {"fieldManager": FIELD_MANAGER},
            body=list(operations),
            content_type="application/json-patch+json",
        )
        return _decode(raw, Node, f"PATCH {path}")

    async def patch_node_status(self, name: str, operations: Sequence[Mapping[str, Any]]) -> Node:
        """Change the status of a node by a JSON patch, as `patch_node`."""
        return await self.patch_node(name, operations, subresource="/status")

    async def list_node(self, name: str) -> Node | None:
        """A node, read from the API server and not from a cache; None if it does not exist. Needs only the right to list."""
        found = await self._list_all(
            APIResource("nodes", NODES.path, field_selector=f"metadata.name={name}")
        )
        return _decode(bytes(found[0]), Node, "GET node") if found else None

    async def put_managed_fields(
        self, node: Mapping[str, Any], fields: Sequence[Mapping[str, Any]]
    ) -> None:
        """Replace the managedFields of a node as read; 409 if the node has changed since."""
        meta = node["metadata"]
        body = {"resourceVersion": meta["resourceVersion"], "managedFields": fields}
        await self._write(
            "PATCH",
            f"{NODES.path}/{segment(meta['name'])}",
            {"fieldManager": FIELD_MANAGER},
            body={"metadata": body},
            content_type="application/merge-patch+json",
        )

    async def patch_policy_status(self, key: PolicyKey, status: Mapping[str, Any]) -> None:
        """Replace a policy's status."""
        await self._write(
            "PATCH",
            "/apis/telemetry.intel.com/v1alpha1/namespaces/"
            f"{segment(key.namespace)}/taspolicies/{segment(key.name)}/status",
            {"fieldManager": FIELD_MANAGER},
            body={"status": dict(status)},
            content_type="application/merge-patch+json",
        )

    async def create_subresource(
        self, namespace: str, pod: str, subresource: str, body: Mapping[str, Any]
    ) -> None:
        """Create a subresource of a pod."""
        path = f"{pods_path(namespace)}/{segment(pod)}/{subresource}"
        await self._write("POST", path, {}, body=body)

    async def review_token(self, token: str, audience: str = "") -> TokenReview:
        """Review a token for an audience, by default the API server's own; returns the user if it is valid."""
        spec = {"token": token, "audiences": [audience] if audience else []}
        review = await self._review("authentication.k8s.io/v1", "TokenReview", spec, TokenReviewed)
        return review.status

    async def review_access(self, spec: Mapping[str, Any]) -> AccessReview:
        """Review whether a user may do something: the `spec` of a SubjectAccessReview."""
        kind = "SubjectAccessReview"
        return (await self._review("authorization.k8s.io/v1", kind, spec, AccessReviewed)).status

    async def get_pod(self, namespace: str, name: str) -> Pod:
        """One pod."""
        path = f"{pods_path(namespace)}/{segment(name)}"
        return _decode(await self._session.request("GET", path, {}), Pod, f"GET {path}")

    async def list_pods(
        self, namespace: str, *, labels: str = "", fields: str = ""
    ) -> list[msgspec.Raw]:
        """The pods of a namespace that match the selectors, read from the API server and not from a cache."""
        return await self._list_all(APIResource("pods", pods_path(namespace), labels, fields))

    async def read_controller(
        self, api_version: str, resource: str, namespace: str, name: str
    ) -> dict[str, Any] | None:
        """A controller of pods, such as one of the `jobs` of `batch/v1`; None if it does not exist."""
        root = "/apis" if "/" in api_version else "/api"
        path = f"{root}/{api_version}/namespaces/{segment(namespace)}"
        return await self._read(f"{path}/{resource}/{segment(name)}")

    async def list_events_about(self, namespace: str, uid: str) -> list[msgspec.Raw]:
        """The Events about an object."""
        about = f"involvedObject.uid={uid}"
        return await self._list_all(
            APIResource("events", events_path(namespace), field_selector=about)
        )

    async def patch_pod(
        self, namespace: str, name: str, operations: Sequence[Mapping[str, Any]]
    ) -> None:
        """Change a pod by a JSON patch (RFC 6902), atomically; 422 if one of its tests fails."""
        await self._write(
            "PATCH",
            f"{pods_path(namespace)}/{segment(name)}",
            {"fieldManager": FIELD_MANAGER},
            body=list(operations),
            content_type="application/json-patch+json",
        )

    async def annotate_pod(
        self, namespace: str, name: str, uid: str, annotations: Mapping[str, str]
    ) -> None:
        """Set annotations of a pod; 422 if the pod has another uid.

        Through its status, since the right to patch that is no right to give a pod another image.
        """
        await self._write(
            "PATCH",
            f"{pods_path(namespace)}/{segment(name)}/status",
            {"fieldManager": FIELD_MANAGER},
            body={"metadata": {"uid": uid, "annotations": dict(annotations)}},
            content_type="application/merge-patch+json",
        )

    async def create_event(self, event: Mapping[str, Any]) -> None:
        """Write a core/v1 Event."""
        path = events_path(event["metadata"]["namespace"])
        await self._write("POST", path, {}, body=event)

    async def amend_event(self, namespace: str, name: str, changes: Mapping[str, Any]) -> int:
        """Change fields of an Event; returns its count."""
        path = f"{events_path(namespace)}/{segment(name)}"
        raw = await self._write(
            "PATCH", path, {}, body=changes, content_type="application/merge-patch+json"
        )
        return _decode(raw, _Counted, f"PATCH {path}").count or 1

    async def read_lease(self, namespace: str, name: str) -> dict[str, Any] | None:
        """A Lease; None if there is none."""
        return await self._read(f"{leases_path(namespace)}/{segment(name)}")

    async def write_lease(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create a Lease, or replace the one with the resourceVersion in it; 409 on a concurrent write."""
        method, path = placed(leases_path(body["metadata"]["namespace"]), body)
        raw = await self._session.request(method, path, {"fieldManager": FIELD_MANAGER}, body=body)
        return _decode(raw, dict[str, Any], f"{method} {path}")

    async def read_config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        """A ConfigMap; None if there is none."""
        return await self._read(f"{config_maps_path(namespace)}/{segment(name)}")

    async def write_config_map(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create a ConfigMap, or replace the one with the resourceVersion in it; 409 on a concurrent write."""
        method, path = placed(config_maps_path(body["metadata"]["namespace"]), body)
        raw = await self._write(method, path, {"fieldManager": FIELD_MANAGER}, body=body)
        return _decode(raw, dict[str, Any], f"{method} {path}")

    async def patch_secret(
        self, namespace: str, name: str, data: Mapping[str, str | None], resource_version: str
    ) -> bytes:
        """Set keys of a Secret as read, values in base64, and remove those without one; return its JSON. 409 if it has changed since."""
        body = {"metadata": {"resourceVersion": resource_version}, "data": dict(data)}
        return await self._write(
            "PATCH",
            f"{secrets_path(namespace)}/{segment(name)}",
            {"fieldManager": FIELD_MANAGER},
            body=body,
            content_type="application/merge-patch+json",
        )

    async def read_claim(self, namespace: str, name: str) -> dict[str, Any] | None:
        """A PersistentVolumeClaim; None if there is none."""
        path = f"/api/v1/namespaces/{segment(namespace)}/persistentvolumeclaims"
        return await self._read(f"{path}/{segment(name)}")

    async def read_volume(self, name: str) -> dict[str, Any] | None:
        """A PersistentVolume; None if there is none."""
        return await self._read(f"/api/v1/persistentvolumes/{segment(name)}")

    async def read_group(self, group: str) -> dict[str, Any] | None:
        """An API group from discovery; None if it is not served."""
        return await self._read(f"/apis/{segment(group)}")

    async def get_raw(self, path: str, largest: int) -> tuple[bytes, str]:
        """Return a response of an aggregated API, at most `largest` bytes, and its Date."""
        response = await self._session.send("GET", path, {})
        body = await whole(response, f"GET {path}", largest=largest)
        return body, response.headers.get("Date", "")

    async def _list_all(self, resource: APIResource) -> list[msgspec.Raw]:
        return [item async for page in self.pages(resource) for item in page.items]

    async def _review(
        self, version: str, kind: str, spec: Mapping[str, Any], reviewed: type[T]
    ) -> T:
        """Not guarded: it changes nothing, and every replica authenticates its own clients."""
        path = f"/apis/{version}/{kind.lower()}s"
        body = {"apiVersion": version, "kind": kind, "spec": spec}
        raw = await self._session.request("POST", path, {}, body=body)
        return _decode(raw, reviewed, f"POST {path}")

    async def _read(self, path: str) -> dict[str, Any] | None:
        return await read_object(self._session, path, dict[str, Any])

    async def _write(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        body: object,
        content_type: str = "application/json",
    ) -> bytes:
        """Send a write through the fence."""
        async with self.fence():
            return await self._session.request(
                method, path, query, body=body, content_type=content_type
            )


async def read_object(session: APISession, path: str, kind: type[T]) -> T | None:
    """Return an object; None if it does not exist. Raises KubeError."""
    try:
        return _decode(await session.request("GET", path, {}), kind, f"GET {path}")
    except KubeError as error:
        if error.status == 404:
            return None
        raise


def _decode(body: bytes, kind: type[T], call: str) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except UNREADABLE as error:
        raise KubeError(0, f"{call}: unreadable response: {error}") from error


class _Counted(msgspec.Struct):
    count: int | None = None


def now() -> str:
    """The current time as the API server writes it: RFC 3339, UTC, whole seconds."""
    return rfc3339.seconds(time.time())

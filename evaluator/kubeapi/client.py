"""The Kubernetes API as the evaluator uses it: every call that RBAC has to allow."""

import contextlib
import time
import urllib.parse
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
import msgspec

from evaluator.kubeapi.connection import KubeConnection
from evaluator.kubeapi.transport import APISession, KubeError, lines, whole
from evaluator.model.api_status import TokenReview
from evaluator.model.decode import UNREADABLE
from evaluator.model.names import PolicyKey
from evaluator.model.node_labels import FIELD_MANAGER, LabelApply
from evaluator.model.objects import Node, Pod
from plimsoll import rfc3339

T = TypeVar("T")

_PAGE = 250
_POLICIES_PAGE = 20
"""Objects may have 1.5 MiB each, and anybody who may write a policy can make it that large."""
"""Of 12 KB each, as nodes are, these are 3 MB: to find where one ends and the next begins takes a millisecond."""
_LARGEST_METRIC = 64 << 20
"""Bytes of an adapter's answer, which passes through the API server as it is; 5,000 nodes are one or two million."""


@dataclass(frozen=True, slots=True)
class APIResource:
    """A kind of object to list and watch; cluster-wide, unless its path says otherwise.

    `unserved`: what to do where the API server does not serve it.
    """

    name: str
    path: str
    label_selector: str = ""
    field_selector: str = ""
    unserved: str = ""
    page: int = _PAGE
    """Objects of one page of a list."""

    @property
    def selection(self) -> dict[str, str]:
        """The part of a query that says which objects are meant."""
        return {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}


NODES = APIResource("nodes", "/api/v1/nodes")
POLICIES = APIResource(
    "taspolicies",
    "/apis/telemetry.intel.com/v1alpha1/taspolicies",
    unserved="TASPolicy CRD is not installed; run `kubectl apply -k deploy/crd`",
    page=_POLICIES_PAGE,
)
LINKED_PODS = APIResource("pods", "/api/v1/pods", label_selector="telemetry-policy")
ALL_PODS = APIResource("all pods", "/api/v1/pods")


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    items: list[msgspec.Raw]
    resource_version: str
    more: str


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class Kube:
    """One API server. All methods raise KubeError."""

    def __init__(self, connection: KubeConnection) -> None:
        self._connection = connection
        self._session = APISession(connection)
        self.guard: Callable[[], contextlib.AbstractAsyncContextManager[None]] = (
            contextlib.nullcontext
        )
        """Entered around each write but the lease's own; it raises KubeError where there must be none."""

    @classmethod
    async def connect(cls, kubeconfig: str) -> "Kube":
        """Use a kubeconfig file if one is named, else the pod's service account, else ~/.kube/config.

        Nothing is sent yet. Raises ConfigError.
        """
        return cls(await KubeConnection.open(kubeconfig))

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()

    async def list_page(self, resource: APIResource, more: str = "") -> Page:
        """One page of a list; `more` is what the page before said."""
        query = {"limit": str(resource.page), "continue": more, **resource.selection}
        body = await self._session.request("GET", resource.path, query)
        decoded = _decode(body, _List, f"GET {resource.path}")
        meta = decoded.metadata
        return Page(decoded.items or [], meta.resource_version, meta.continue_)

    async def watch(
        self,
        resource: APIResource,
        resource_version: str,
        *,
        timeout: float,
        silence: float | None = None,
        opened: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[bytes]:
        """Events after a resourceVersion, one JSON document each, until the server ends the watch.

        `opened` is called once the server has agreed; `silence`: seconds without a word that are an error.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(int(timeout)),
            **resource.selection,
        }
        # The server ends a watch in time; one that does not is given up a little later, one that hangs earlier.
        limit = aiohttp.ClientTimeout(total=timeout + 15, sock_connect=10, sock_read=silence)
        response = await self._session.send("GET", resource.path, query, timeout=limit)
        opened()
        async for line in lines(response, f"watch of {resource.name}"):
            yield line

    async def apply_node_labels(self, apply: LabelApply) -> Node:
        """Make `apply.labels` all the labels of ours on a node, by server-side apply.

        The uid goes with it: without one, an apply to a node that is gone creates it.
        """
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": apply.node, "uid": apply.uid, "labels": dict(apply.labels)},
        }
        path = f"{NODES.path}/{_segment(apply.node)}"
        raw = await self._write(
            "PATCH",
            path,
            {"fieldManager": FIELD_MANAGER},
            body=body,
            content_type="application/apply-patch+yaml",
        )
        return _decode(raw, Node, f"PATCH {path}")

    async def put_managed_fields(
        self, node: Mapping[str, Any], fields: Sequence[Mapping[str, Any]]
    ) -> None:
        """Change who owns what of a node, just as it was read; 409 if it has changed meanwhile."""
        meta = node["metadata"]
        body = {"resourceVersion": meta["resourceVersion"], "managedFields": fields}
        await self._write(
            "PATCH",
            f"{NODES.path}/{_segment(meta['name'])}",
            {"fieldManager": FIELD_MANAGER},
            body={"metadata": body},
            content_type="application/merge-patch+json",
        )

    async def patch_policy_status(self, key: PolicyKey, status: Mapping[str, Any]) -> None:
        """Replace a policy's status."""
        await self._write(
            "PATCH",
            "/apis/telemetry.intel.com/v1alpha1/namespaces/"
            f"{_segment(key.namespace)}/taspolicies/{_segment(key.name)}/status",
            {"fieldManager": FIELD_MANAGER},
            body={"status": dict(status)},
            content_type="application/merge-patch+json",
        )

    async def evict(self, namespace: str, name: str, uid: str) -> None:
        """Ask for a pod to be evicted; a PodDisruptionBudget that forbids it answers 429."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        path = f"{_pods(namespace)}/{_segment(name)}/eviction"
        await self._write("POST", path, {}, body=body)

    async def review_token(self, token: str, audience: str) -> TokenReview:
        """Whose token it is, if it is valid and meant for this audience."""
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]},
        }
        # Past the guard: it changes nothing, and every replica has agents of its own.
        raw = await self._session.request("POST", path, {}, body=body)
        return _decode(raw, _Reviewed, f"POST {path}").status

    async def get_pod(self, namespace: str, name: str) -> Pod:
        """One pod."""
        path = f"{_pods(namespace)}/{_segment(name)}"
        return _decode(await self._session.request("GET", path, {}), Pod, f"GET {path}")

    async def list_pods(
        self, namespace: str, *, labels: str = "", fields: str = ""
    ) -> list[msgspec.Raw]:
        """The pods of a namespace that selectors pick: as they are at this moment, not as a cache has them."""
        return await self._list_all(APIResource("pods", _pods(namespace), labels, fields))

    async def read_controller(
        self, api_version: str, resource: str, namespace: str, name: str
    ) -> dict[str, Any] | None:
        """What makes pods, such as one of the `jobs` of `batch/v1`; None if there is none."""
        root = "/apis" if "/" in api_version else "/api"
        path = f"{root}/{api_version}/namespaces/{_segment(namespace)}"
        return await self._read(f"{path}/{resource}/{_segment(name)}")

    async def list_events_about(self, namespace: str, uid: str) -> list[msgspec.Raw]:
        """The events that tell of an object."""
        about = f"involvedObject.uid={uid}"
        return await self._list_all(APIResource("events", _events(namespace), field_selector=about))

    async def patch_pod(
        self, namespace: str, name: str, operations: Sequence[Mapping[str, Any]]
    ) -> None:
        """Change a pod by a JSON patch (RFC 6902), all of it or nothing; 422 where one of its tests fails."""
        await self._write(
            "PATCH",
            f"{_pods(namespace)}/{_segment(name)}",
            {"fieldManager": FIELD_MANAGER},
            body=list(operations),
            content_type="application/json-patch+json",
        )

    async def annotate_pod(
        self, namespace: str, name: str, uid: str, annotations: Mapping[str, str]
    ) -> None:
        """Set annotations of a pod; a namesake with another uid answers 422.

        Through its status, since the right to patch that is no right to give a pod another image.
        """
        await self._write(
            "PATCH",
            f"{_pods(namespace)}/{_segment(name)}/status",
            {"fieldManager": FIELD_MANAGER},
            body={"metadata": {"uid": uid, "annotations": dict(annotations)}},
            content_type="application/merge-patch+json",
        )

    async def create_event(self, event: Mapping[str, Any]) -> None:
        """Write a core/v1 Event."""
        path = _events(event["metadata"]["namespace"])
        await self._write("POST", path, {}, body=event)

    async def amend_event(self, namespace: str, name: str, changes: Mapping[str, Any]) -> int:
        """Change some fields of an event; returns how often it says that it happened."""
        path = f"{_events(namespace)}/{_segment(name)}"
        raw = await self._write(
            "PATCH", path, {}, body=changes, content_type="application/merge-patch+json"
        )
        return _decode(raw, _Counted, f"PATCH {path}").count or 1

    async def read_lease(self, namespace: str, name: str) -> dict[str, Any] | None:
        """A Lease; None if there is none."""
        return await self._read(f"{_leases(namespace)}/{_segment(name)}")

    async def write_lease(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make a Lease, or replace what has the resourceVersion in it; 409 if somebody else was faster."""
        method, path = _placed(_leases(body["metadata"]["namespace"]), body)
        raw = await self._session.request(method, path, {"fieldManager": FIELD_MANAGER}, body=body)
        return _decode(raw, dict[str, Any], f"{method} {path}")

    async def read_config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        """A ConfigMap; None if there is none."""
        return await self._read(f"{_config_maps(namespace)}/{_segment(name)}")

    async def write_config_map(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make a ConfigMap, or replace what has the resourceVersion in it; 409 if somebody else was faster."""
        method, path = _placed(_config_maps(body["metadata"]["namespace"]), body)
        raw = await self._write(method, path, {"fieldManager": FIELD_MANAGER}, body=body)
        return _decode(raw, dict[str, Any], f"{method} {path}")

    async def read_group(self, group: str) -> dict[str, Any] | None:
        """What the server says of an API group; None if it is not served."""
        return await self._read(f"/apis/{_segment(group)}")

    async def node_metric(
        self, version: str, metric: str, *, largest: int = _LARGEST_METRIC
    ) -> tuple[bytes, str]:
        """One metric of all nodes, from the custom metrics API, and the Date of the answer."""
        path = f"/apis/custom.metrics.k8s.io/{version}/nodes/*/{_segment(metric)}"
        response = await self._session.send("GET", path, {})
        body = await whole(response, f"GET {path}", largest=largest)
        return body, response.headers.get("Date", "")

    async def _list_all(self, resource: APIResource) -> list[msgspec.Raw]:
        page = await self.list_page(resource)
        found = page.items
        while page.more:
            page = await self.list_page(resource, page.more)
            found += page.items
        return found

    async def _read(self, path: str) -> dict[str, Any] | None:
        try:
            return _decode(
                await self._session.request("GET", path, {}), dict[str, Any], f"GET {path}"
            )
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    async def _write(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        body: object,
        content_type: str = "application/json",
    ) -> bytes:
        """A request that changes something, and so needs the right to."""
        async with self.guard():
            return await self._session.request(
                method, path, query, body=body, content_type=content_type
            )


def _decode(body: bytes, kind: type[T], call: str) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except UNREADABLE as error:
        raise KubeError(0, f"{call}: an answer that cannot be read: {error}") from error


class _Counted(msgspec.Struct):
    count: int | None = None


class _Reviewed(msgspec.Struct):
    status: TokenReview = msgspec.field(default_factory=TokenReview)


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{_segment(namespace)}/pods"


def _events(namespace: str) -> str:
    return f"/api/v1/namespaces/{_segment(namespace)}/events"


def _leases(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{_segment(namespace)}/leases"


def _config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{_segment(namespace)}/configmaps"


def _placed(collection: str, body: Mapping[str, Any]) -> tuple[str, str]:
    """Method and path that make an object, or replace one that was read."""
    meta = body["metadata"]
    if meta.get("resourceVersion"):
        return "PUT", f"{collection}/{_segment(meta['name'])}"
    return "POST", collection


def _segment(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def now() -> str:
    """The time as the API server writes it: RFC 3339, in UTC, whole seconds."""
    return rfc3339.seconds(time.time())

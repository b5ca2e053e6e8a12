"""A small asynchronous Kubernetes client for the sandbox's controllers, demos and tests."""

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import aiohttp

from sandbox.client.objects import PODS, Object, ObjectKind

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

_PAGE = 500


class ApiError(Exception):
    """The API server returned an error. `status` is the HTTP code, `reason` the Status reason, `causes` their messages."""

    def __init__(
        self, status: int, reason: str, message: str, causes: tuple[str, ...] = ()
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes


@dataclass(frozen=True, slots=True)
class Listing:
    """The items of a list and the resourceVersion from which a watch continues."""

    items: tuple[Object, ...]
    version: str


class Client:
    """A client of one API server, without authentication or with a token and a CA.

    Every method raises ApiError for a response of 400 or more.
    """

    def __init__(self, url: str, *, token: str = "", ca: Path | None = None) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._ca = ca
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        tls = ssl.create_default_context(cafile=self._ca) if self._ca else True
        # Each watch holds a connection: no limit, and no timeout unless a call sets one.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=tls),
            timeout=aiohttp.ClientTimeout(total=None),
            headers=self._headers,
        )
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def get(self, resource: ObjectKind, name: str, namespace: str = "") -> Object:
        """Return one object."""
        return await self.request("GET", resource.path(namespace, name))

    async def list(
        self, resource: ObjectKind, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing:
        """List all objects of a namespace, or of all namespaces, reading page by page."""
        items: tuple[Object, ...] = ()
        params = {"labelSelector": labels, "fieldSelector": fields, "limit": str(_PAGE)}
        while True:
            page = await self.request("GET", resource.path(namespace), params=params)
            items += tuple(page["items"] or ())
            params["continue"] = page["metadata"].get("continue", "")
            if not params["continue"]:
                return Listing(items, str(page["metadata"]["resourceVersion"]))

    async def create(self, resource: ObjectKind, body: Object) -> Object:
        """Create an object in the namespace in its metadata."""
        namespace = body["metadata"].get("namespace", "")
        return await self.request("POST", resource.path(namespace), body=body)

    async def update(self, resource: ObjectKind, body: Object, *, subresource: str = "") -> Object:
        """Replace an object or its status; a resourceVersion in the body makes it conditional."""
        meta = body["metadata"]
        path = resource.path(meta.get("namespace", ""), meta["name"], subresource)
        return await self.request("PUT", path, body=body)

    async def patch(
        self,
        resource: ObjectKind,
        name: str,
        body: Object | tuple[Object, ...],
        namespace: str = "",
        *,
        subresource: str = "",
        content_type: str = MERGE,
    ) -> Object:
        """Patch an object or one of its subresources; a merge patch by default."""
        path = resource.path(namespace, name, subresource)
        return await self.request("PATCH", path, body=body, content_type=content_type)

    async def apply(self, resource: ObjectKind, body: Object, *, manager: str) -> Object:
        """Server-side apply, without force: a field that another manager owns is a 409."""
        meta = body["metadata"]
        return await self.request(
            "PATCH",
            resource.path(meta.get("namespace", ""), meta["name"]),
            body=body,
            params={"fieldManager": manager},
            content_type=APPLY,
        )

    async def delete(
        self,
        resource: ObjectKind,
        name: str,
        namespace: str = "",
        *,
        grace: int | None = None,
        uid: str = "",
    ) -> Object:
        """Delete an object; `grace` in seconds (None: the object's own), `uid` to hit no namesake."""
        body: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        if uid:
            body["preconditions"] = {"uid": uid}
        return await self.request("DELETE", resource.path(namespace, name), body=body)

    async def bind(self, pod: Object, node: str) -> Object:
        """Bind a pod to a node."""
        meta = pod["metadata"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = PODS.path(meta["namespace"], meta["name"], "binding")
        return await self.request("POST", path, body=body)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Object | tuple[Object, ...] | None = None,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> Object:
        """Send one request that has no method of its own."""
        async with self._connections().request(
            method,
            self.url + path,
            data=None if body is None else json.dumps(body).encode(),
            params={name: value for name, value in (params or {}).items() if value},
            headers={"Content-Type": content_type, "Accept": JSON},
            timeout=aiohttp.ClientTimeout(total=30),
        ) as response:
            return await _decode(response)

    async def watch(
        self, resource: ObjectKind, version: str, namespace: str = ""
    ) -> AsyncIterator[tuple[str, Object]]:
        """Yield (type, object) of each change after a resourceVersion, until the server ends the watch.

        Raises ApiError 410 if the version is too old.
        """
        params = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        async with self._connections().get(
            self.url + resource.path(namespace), params=params, headers={"Accept": JSON}
        ) as response:
            if response.status >= 400:
                await _decode(response)
            async for line in _lines(response.content):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise _error(event["object"], 500)
                yield event["type"], event["object"]

    def _connections(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("use the client inside `async with`")
        return self._session


async def _decode(response: aiohttp.ClientResponse) -> Object:
    text = await response.text()
    try:
        answer = json.loads(text)
    except ValueError:
        answer = {"message": text[:200]}
    if response.status >= 400:
        raise _error(answer, response.status)
    return dict(answer)


def _error(status: Object, code: int) -> ApiError:
    causes = (status.get("details") or {}).get("causes") or ()
    return ApiError(
        int(status.get("code", code)),
        status.get("reason", "Unknown"),
        status.get("message", ""),
        tuple(cause.get("message", "") for cause in causes),
    )


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    # Not readline(): it rejects lines longer than its buffer, such as a node with many managedFields.
    rest = bytearray()
    async for chunk in stream.iter_any():
        rest += chunk
        *whole, last = rest.split(b"\n")
        rest = last
        for line in whole:
            if line.strip():
                yield bytes(line)


async def ensure(client: Client, resource: ObjectKind, body: Object) -> None:
    """Create an object unless it exists."""
    try:
        await client.create(resource, body)
    except ApiError as error:
        if error.status != 409:
            raise

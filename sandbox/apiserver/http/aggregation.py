"""The aggregation layer: requests for the group versions of APIServices go to the programs behind their Services.

As in kube-aggregator, a program receives the front proxy's client certificate and the user in X-Remote headers, and is asked
for its group version before requests are forwarded to it.
"""

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
from aiohttp import web

from plimsoll import logs
from plimsoll.wakeup import WakeUp
from sandbox.apiserver.cluster import Cluster
from sandbox.apiserver.errors import ApiError
from sandbox.apiserver.http.proxy import Backends
from sandbox.apiserver.kinds.apiservices import COLLECTION
from sandbox.apiserver.storage.objects import Json, condition, dig, meta, name_of, with_condition
from sandbox.apiserver.storage.store import Change
from sandbox.pki import KeyPair

log = logs.get(__name__)

_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_GROUPS = ("X-Remote-Group", "system:masters"), ("X-Remote-Group", "system:authenticated")
_ADMINISTRATOR = (("X-Remote-User", "admin"), *_GROUPS)
"""The sandbox takes every client for its administrator."""
_AGGREGATOR = (("X-Remote-User", "system:kube-aggregator"), *_GROUPS)
_FORWARDED = ("Accept", "Accept-Encoding", "If-None-Match")
_RETURNED = ("Content-Type", "Content-Encoding", "ETag", "Retry-After")
_CHECK_PERIOD = 1.0
CHECK_TIMEOUT, _TIMEOUT = 5.0, 30.0
"""Seconds."""
_CHECK_ATTEMPTS = 5
"""Requests of one check, of which one must succeed, as in kube-aggregator: one of a Service's endpoints may be gone."""


class Aggregator:
    """Forwards requests, merges discovery, and keeps the condition Available of APIServices.

    `backends` and `front_proxy`, the client certificate, may change at any time.
    """

    def __init__(
        self, cluster: Cluster, backends: Backends, *, check_timeout: float = CHECK_TIMEOUT
    ) -> None:
        self._cluster = cluster
        self._check_timeout = check_timeout
        self._backends = backends
        self.front_proxy: KeyPair | None = None
        self._changed = WakeUp()
        cluster.store.listen(self._note)

    def _note(self, change: Change) -> None:
        if change.collection == COLLECTION:
            self._changed.set()

    def serving(self, path: str) -> Json | None:
        """Return the APIService that answers for a path; None if the server itself does."""
        match path.split("/", 4):
            case ["", "apis", group, version, *_] if group and version:
                record = self._cluster.store.get(COLLECTION, ("", f"{version}.{group}"))
                return record.obj if record else None
            case _:
                return None

    async def forward(self, request: web.Request, service: Json) -> web.Response:
        """Return the program's response. Raises ApiError: 503 if it is not available."""
        if (condition(service, "Available") or {}).get("status") != "True":
            raise _unavailable()
        headers = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
        try:
            async with self._send(
                service, request.method, request.path_qs, (*headers.items(), *_ADMINISTRATOR)
            ) as response:
                kept = {
                    name: response.headers[name] for name in _RETURNED if name in response.headers
                }
                return web.Response(
                    body=await response.read(), status=response.status, headers=kept
                )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            log.warning("aggregated API failed", apiservice=name_of(service), error=str(error))
            raise _unavailable() from error

    def groups(self) -> list[Json]:
        """Return the entries of /apis, each an APIGroup without kind; unavailable versions are among them."""
        versions: dict[str, list[Json]] = {}
        for obj in sorted(self._objects(), key=lambda obj: -obj["spec"].get("versionPriority", 0)):
            versions.setdefault(obj["spec"]["group"], []).append(_version(obj))
        return [
            {"name": group, "versions": listed, "preferredVersion": listed[0]}
            for group, listed in versions.items()
        ]

    async def discovered(self) -> list[Json]:
        """Return the items of aggregated discovery; a group that does not answer has no item."""
        items = []
        for group in {obj["spec"]["group"]: obj for obj in self._objects()}.values():
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
                items += await self._items(group)
        return items

    async def run(self) -> None:
        """Check the programs behind all APIServices, again and again, until cancelled."""
        while True:
            for obj in list(self._objects()):
                await self._check(obj)
            if any(self._objects()):
                await asyncio.sleep(_CHECK_PERIOD)  # also after our own writes of a status
            else:
                await self._changed.wait()

    def _objects(self) -> list[Json]:
        return list(self._cluster.objects(COLLECTION))

    async def _items(self, service: Json) -> list[Json]:
        headers = (("Accept", _DISCOVERY), *_AGGREGATOR)
        async with self._send(service, "GET", "/apis", headers, self._check_timeout) as response:
            items: list[Json] = json.loads(await response.read())["items"]
            return [item for item in items if item["metadata"]["name"] == service["spec"]["group"]]

    async def _check(self, obj: Json) -> None:
        available = {"type": "Available", **await self._availability(obj)}
        record = self._cluster.store.get(COLLECTION, ("", name_of(obj)))
        if record is None:
            return
        current = record.obj
        before = dig(current, "status", "conditions")
        after = with_condition(before, available, now=self._cluster.clock())
        if after != before:
            stored = {**current, "metadata": dict(meta(current)), "status": {"conditions": after}}
            self._cluster.store.put(COLLECTION, ("", name_of(obj)), stored)

    async def _availability(self, obj: Json) -> Json:
        spec = obj["spec"]
        if problem := self._missing(spec["service"]):
            return problem
        path = f"/apis/{spec['group']}/{spec['version']}"
        clock = asyncio.get_running_loop().time
        reason, end = "", clock() + self._check_timeout
        for attempt in range(_CHECK_ATTEMPTS):
            if attempt and clock() > end:
                break
            try:
                async with self._send(
                    obj, "GET", path, _AGGREGATOR, self._check_timeout
                ) as response:
                    if 200 <= response.status < 300:
                        return _condition("True", "Passed", "all checks passed")
                    reason = f"bad status from {path}: {response.status}"
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                reason = (
                    f"failing or missing response from {path}: {str(error) or type(error).__name__}"
                )
        return _condition("False", "FailedDiscoveryCheck", reason)

    def _missing(self, service: Json) -> Json | None:
        name, namespace, port = service["name"], service["namespace"], service["port"]
        record = self._cluster.store.get("services", (namespace, name))
        if record is None:
            text = f'service/{name} in "{namespace}" is not present'
            return _condition("False", "ServiceNotFound", text)
        listed = _port_name(record.obj, port)
        if listed is None:
            text = f'service/{name} in "{namespace}" is not listening on port {port}'
            return _condition("False", "ServicePortError", text)
        if (namespace, name, listed) not in self._backends:
            text = f'endpoints for service/{name} in "{namespace}" have no addresses with port name "{listed}"'
            return _condition("False", "MissingEndpoints", text)
        return None

    @contextlib.asynccontextmanager
    async def _send(
        self,
        obj: Json,
        method: str,
        path: str,
        headers: tuple[tuple[str, str], ...],
        timeout: float = _TIMEOUT,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request to the program of an APIService. Raises aiohttp.ClientError, OSError or TimeoutError."""
        service = obj["spec"]["service"]
        record = self._cluster.store.get("services", (service["namespace"], service["name"]))
        port = _port_name(record.obj, service["port"]) if record else None
        url = self._backends.get((service["namespace"], service["name"], port or ""))
        if url is None:
            raise ConnectionError("the Service has no endpoints")
        async with (
            aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=timeout), auto_decompress=False
            ) as session,
            session.request(
                method,
                url + path,
                headers=headers,
                ssl=self._tls(obj["spec"]),
                server_hostname=f"{service['name']}.{service['namespace']}.svc",
                allow_redirects=False,
            ) as response,
        ):
            yield response

    def _tls(self, spec: Json) -> ssl.SSLContext:
        bundle = base64.b64decode(spec.get("caBundle") or "").decode()
        context = ssl.create_default_context(cadata=bundle or None)
        if spec.get("insecureSkipTLSVerify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.front_proxy is not None:
            context.load_cert_chain(self.front_proxy.cert, self.front_proxy.key)
        return context


def published(ca: str, *, allowed_names: list[str]) -> dict[str, str]:
    """Return the data of kube-system/extension-apiserver-authentication for a front proxy whose certificate `ca` signed."""
    headers = {
        "allowed-names": allowed_names,
        "username-headers": ["X-Remote-User"],
        "group-headers": ["X-Remote-Group"],
        "extra-headers-prefix": ["X-Remote-Extra-"],
    }
    lists = {f"requestheader-{name}": json.dumps(values) for name, values in headers.items()}
    return {"requestheader-client-ca-file": ca, **lists}


def _version(obj: Json) -> Json:
    spec = obj["spec"]
    return {"groupVersion": f"{spec['group']}/{spec['version']}", "version": spec["version"]}


def _port_name(service: Mapping[str, Any], number: int) -> str | None:
    """Return the name of a Service's port; None if it does not list the number."""
    for port in dig(service, "spec", "ports") or ():
        if port.get("port") == number:
            return str(port.get("name") or "")
    return None


def _condition(status: str, reason: str, message: str) -> Json:
    return {"status": status, "reason": reason, "message": message}


def _unavailable() -> ApiError:
    return ApiError(
        503, "ServiceUnavailable", "the server is currently unable to handle the request"
    )

"""The in-memory API server on loopback HTTP, for kubectl, schedulers and controllers."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from aiohttp import web

from plimsoll import rfc3339
from plimsoll.http.routes import is_loopback
from plimsoll.text import shown
from sandbox.apiserver.cluster import Cluster
from sandbox.apiserver.errors import ApiError
from sandbox.apiserver.http import aggregation, bodies
from sandbox.apiserver.http.aggregation import CHECK_TIMEOUT, Aggregator
from sandbox.apiserver.http.proxy import ServiceProxy
from sandbox.apiserver.http.serving import Frontend
from sandbox.apiserver.http.watches import Watches
from sandbox.apiserver.storage.objects import Json, name_of
from sandbox.pki import KeyPair

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class ApiServer:
    """One server with the state of one cluster, which is lost on close."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        history: int = 10_000,
        bookmark_interval: float = 10.0,
        check_timeout: float = CHECK_TIMEOUT,
    ) -> None:
        self._cluster = Cluster(clock, history)
        self._watches = Watches(self._cluster, bookmark_interval=bookmark_interval)
        self._backends: dict[tuple[str, str, str], str] = {}
        self._aggregator = Aggregator(self._cluster, self._backends, check_timeout=check_timeout)
        proxy = ServiceProxy(self._backends)
        self._frontend = Frontend(self._cluster, self._watches, proxy, self._aggregator)
        self._runner: web.AppRunner | None = None
        self._checking: asyncio.Task[None] | None = None
        for name in _NAMESPACES:
            self._create_namespace(name)

    async def start(self, port: int = 0, host: str = "127.0.0.1") -> str:
        """Start serving and return the URL. Port 0 selects a free port."""
        # Limits the bytes read; a larger Content-Length is rejected before the body is read.
        app = web.Application(client_max_size=bodies.LIMIT, middlewares=[loopback_only])
        app.router.add_route("*", "/{path:.*}", self._frontend.handle)
        # kubectl keeps connections open; shutdown does not wait for them.
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        self._checking = asyncio.create_task(self._aggregator.run())
        bound_host, bound_port = self._runner.addresses[0][:2]
        return f"http://{bound_host}:{bound_port}"

    def serve_as(self, namespace: str, service: str, port: str, url: str) -> None:
        """Let the service proxy and APIServices forward requests for a Service and its named port to this base URL."""
        self._backends[namespace, service, port] = url

    def use_front_proxy(self, ca: Path, certificate: KeyPair) -> None:
        """Reach programs behind APIServices with this client certificate, and publish its CA as kube-apiserver does."""
        self._aggregator.front_proxy = certificate
        key = ("kube-system", "extension-apiserver-authentication")
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": self._metadata(key[1], namespace=key[0]),
            "data": aggregation.published(ca.read_text(), allowed_names=["front-proxy-client"]),
        }
        self._cluster.store.put("configmaps", key, body)

    async def close(self) -> None:
        """End all watches and close the port."""
        self._watches.close()
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait([self._checking])
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def load(self, plural: str, objects: Iterable[Json]) -> None:
        """Store objects directly, without validation or requests; for thousands of objects before the start."""
        for obj in objects:
            namespace = obj["metadata"].get("namespace", "")
            self._cluster.store.put(plural, (namespace, name_of(obj)), obj)

    def expire_history(self) -> None:
        """Drop the history: open watches, and lists and watches from an earlier resourceVersion, get 410 Gone."""
        self._cluster.store.expire_history()
        self._watches.wake_all()

    def send_bookmarks(self) -> None:
        """Send a bookmark to every watch with bookmarks enabled, before the interval ends."""
        self._watches.send_bookmarks()

    def _create_namespace(self, name: str) -> None:
        self._cluster.store.put(
            "namespaces",
            ("", name),
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": self._metadata(name, labels={"kubernetes.io/metadata.name": name}),
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            },
        )
        self._frontend.settle()

    def _metadata(self, name: str, **more: object) -> Json:
        return {
            "name": name,
            "uid": self._cluster.new_uid(),
            "creationTimestamp": rfc3339.seconds(self._cluster.clock()),
            **more,
        }


@web.middleware
async def loopback_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return a 421 if the Host header is not a loopback name or address: without authentication, DNS rebinding must not reach the API.

    A browser sends the name of the page's site, even if it resolves to 127.0.0.1. Requests without the header (HTTP/1.0) do not
    come from browsers and are allowed.
    """
    host = request.headers.get("Host")
    if host is None or is_loopback(host):
        return await handler(request)
    text = f"this server answers for localhost, 127.0.0.1 and [::1] only, not for the Host {shown(host)}"
    error = ApiError(421, "MisdirectedRequest", text)
    return web.json_response(error.status(), status=error.code)

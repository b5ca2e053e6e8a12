"""HTTP handlers: route requests to cluster functions and encode the results."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from plimsoll import logs
from plimsoll.process import metrics as process_metrics
from sandbox.apiserver.cluster import Cluster
from sandbox.apiserver.controllers import BuiltInControllers
from sandbox.apiserver.errors import ApiError, bad_request, internal, method_not_allowed
from sandbox.apiserver.http import bodies, discovery, openapi
from sandbox.apiserver.http.aggregation import Aggregator
from sandbox.apiserver.http.proxy import ServiceProxy
from sandbox.apiserver.http.requests import (
    Target,
    flag,
    list_query,
    locate,
    number,
    selector,
    wanted_form,
    write_options,
)
from sandbox.apiserver.http.views import View, view
from sandbox.apiserver.http.watches import Watches, WatchQuery
from sandbox.apiserver.storage.lists import Page, list_page, parse_revision
from sandbox.apiserver.storage.objects import Json, encode, meta
from sandbox.apiserver.storage.store import Record
from sandbox.apiserver.writes.actions import Actions
from sandbox.apiserver.writes.deletion import Remover, delete_options
from sandbox.apiserver.writes.writes import APPLY_PATCH, Writer, WriteResult

log = logs.get(__name__)

_METRICS = "/metrics"
_HEALTH = frozenset({"/healthz", "/readyz", "/livez"})
_METRICS_HEADERS = {"Content-Type": CONTENT_TYPE_LATEST}
_NAMESPACE_DELAY = 0.5
_ACTIONS = frozenset({"binding", "eviction"})


class Frontend:
    """Handles all requests of one server."""

    def __init__(
        self, cluster: Cluster, watches: Watches, proxy: ServiceProxy, aggregator: Aggregator
    ) -> None:
        self._cluster = cluster
        self._proxy = proxy
        self._aggregator = aggregator
        self._watches = watches
        self._writer = Writer(cluster)
        self._remover = Remover(cluster)
        self._actions = Actions(cluster, self._writer, self._remover)
        self._metrics = CollectorRegistry()
        process_metrics.register(self._metrics)
        self._controllers = BuiltInControllers(cluster, self._remover, _call_soon)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Handle one request. Every error becomes a Status response."""
        try:
            response = await self._answer(request)
        except ApiError as error:
            response = _json(error.status(), error.code)
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:
            log.exception("request failed", method=request.method, path=request.path)
            failure = internal(f"{type(error).__name__}: {error}")
            response = _json(failure.status(), failure.code)
        finally:
            self._controllers.settle()
        log.debug("request", method=request.method, path=request.path_qs, status=response.status)
        return response

    def settle(self) -> None:
        """Run the built-in controllers after writes that did not come from requests."""
        self._controllers.settle()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path in _HEALTH:
            return web.Response(text="ok")
        if request.path == _METRICS:
            return web.Response(body=generate_latest(self._metrics), headers=_METRICS_HEADERS)
        if (forwarded := await self._forward(request)) is not None:
            return forwarded
        if request.method == "GET" and (document := await self._document(request)) is not None:
            return document
        target = locate(self._cluster.registry, request.path)
        match request.method:
            case "GET" | "HEAD":
                return await self._get(request, target)
            case "POST":
                return await self._post(request, target)
            case "PUT" if target.name:
                return await self._put(request, target)
            case "PATCH" if target.name:
                return await self._patch(request, target)
            case "DELETE" if not target.subresource:
                return await self._delete(request, target)
        raise method_not_allowed()

    async def _forward(self, request: web.Request) -> web.Response | None:
        """Return the response of the program that answers for a path; None if this server does. Raises ApiError."""
        if (service := self._aggregator.serving(request.path)) is not None:
            return await self._aggregator.forward(request, service)
        if (route := self._proxy.route(request)) is not None:
            return await self._proxy.forward(request, *route)
        return None

    async def _document(self, request: web.Request) -> web.Response | None:
        """Return discovery and other documents about the server; None for other paths."""
        parts = request.path.strip("/").split("/")
        resources = list(self._cluster.registry)
        match parts:
            case ["version"]:
                return _json(dict(discovery.VERSION))
            case ["api" | "apis"] if version := discovery.accepted(
                request.headers.get("Accept", "")
            ):
                body = discovery.aggregated(resources, version, legacy=parts == ["api"])
                if parts == ["apis"]:
                    body["items"] += await self._aggregator.discovered()
                return web.Response(
                    body=encode(body), headers={"Content-Type": discovery.content_type(version)}
                )
            case ["api" | "apis", *rest] if len(rest) < 3:
                page = discovery.document(parts, resources, self._aggregator.groups())
            case ["openapi", "v2"]:
                # kubectl requests kinds that v3 does not have, such as List; an empty body is a document without kinds.
                return web.Response(body=b"", headers={"Content-Type": openapi.V2_PROTOBUF})
            case ["openapi", "v3", *rest]:
                page = openapi.document(rest, resources)
            case _:
                return None
        if page is None:
            # A longer path is that of an object, or a 404.
            return None
        return _json(page)

    async def _get(self, request: web.Request, target: Target) -> web.StreamResponse:
        if target.subresource == "scale":
            return _json(self._actions.scale(target.resource, target.key))
        if target.subresource in _ACTIONS:
            raise method_not_allowed()
        make_view = self._view_maker(request, target)
        if flag(request.query, "watch") and not target.subresource:
            return await self._watch(request, target, make_view)
        if target.name:
            record = self._cluster.find(target.resource, target.key)
            return _raw(make_view().one(record))
        return _raw(make_view().many(self._page(request, target)))

    def _page(self, request: web.Request, target: Target) -> Page:
        query = list_query(target, request.query)
        return list_page(self._cluster.store, target.resource.collection, target.namespace, query)

    def _view_maker(self, request: web.Request, target: Target) -> Callable[[], View]:
        form = wanted_form(request.headers.get("Accept", ""))
        include = request.query.get("includeObject", "Metadata")
        return lambda: view(form, target.resource, include=include, now=self._cluster.clock())

    async def _watch(
        self, request: web.Request, target: Target, make_view: Callable[[], View]
    ) -> web.StreamResponse:
        query = self._watch_query(request, target)
        if query.after is not None:
            # Report a revision that is too old before the stream starts.
            self._cluster.store.changes(query.after)
        response = web.StreamResponse(headers={"Content-Type": "application/json;stream=watch"})
        response.enable_chunked_encoding()
        with contextlib.suppress(ConnectionError):  # clients disconnect to end a watch
            await response.prepare(request)
            stream = self._watches.stream(target.resource, query, make_view)
            async with contextlib.aclosing(stream):
                async for chunk in stream:
                    await response.write(chunk)
            await response.write_eof()
        return response

    def _watch_query(self, request: web.Request, target: Target) -> WatchQuery:
        query = request.query
        revision = parse_revision(query.get("resourceVersion", ""))
        initial = flag(query, "sendInitialEvents")
        if initial and query.get("resourceVersionMatch") != "NotOlderThan":
            raise bad_request(
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            )
        return WatchQuery(
            selector=selector(target, query),
            namespace=target.namespace,
            after=None if initial or not revision else revision,
            bookmarks=flag(query, "allowWatchBookmarks"),
            announce_initial=initial and flag(query, "allowWatchBookmarks"),
            timeout=float(number(query, "timeoutSeconds") or 1800),
        )

    async def _post(self, request: web.Request, target: Target) -> web.Response:
        options = write_options(target, request.query, request.headers.get("User-Agent", ""))
        body = await bodies.read(request, bodies.media_type(request, bodies.OBJECTS))
        if target.subresource:
            return _json(self._actions.create(target.resource, target.key, body, options), 201)
        if target.name:
            raise method_not_allowed()
        return self._outcome(
            request, target, self._writer.create(target.resource, target.namespace, body, options)
        )

    async def _put(self, request: web.Request, target: Target) -> web.Response:
        options = write_options(target, request.query, request.headers.get("User-Agent", ""))
        body = await bodies.read(request, bodies.media_type(request, bodies.OBJECTS))
        if target.subresource == "scale":
            return _json(self._actions.set_scale(target.resource, target.key, body, options))
        if target.subresource in _ACTIONS:
            raise method_not_allowed()
        return self._outcome(
            request, target, self._writer.update(target.resource, target.key, body, options)
        )

    async def _patch(self, request: web.Request, target: Target) -> web.Response:
        options = write_options(target, request.query, request.headers.get("User-Agent", ""))
        form = bodies.media_type(request, bodies.PATCHES)
        body = await bodies.read(request, form)
        if target.subresource == "scale":
            return _json(
                self._actions.patch_scale(target.resource, target.key, body, form, options)
            )
        if target.subresource in _ACTIONS:
            raise method_not_allowed()
        if form == APPLY_PATCH:
            if "fieldManager" not in request.query:
                raise bad_request(
                    "PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: is required for apply patch"
                )
            outcome = self._writer.apply(target.resource, target.key, body, options)
        else:
            outcome = self._writer.patch(target.resource, target.key, body, form, options)
        return self._outcome(request, target, outcome)

    async def _delete(self, request: web.Request, target: Target) -> web.Response:
        body: Any = None
        if request.can_read_body:
            body = await bodies.read(request, bodies.media_type(request, bodies.OBJECTS))
        options = delete_options(body, request.query)
        if target.name:
            return _json(self._remover.delete(target.resource, target.key, options))
        page = self._page(request, target)
        for record in page.records:
            key = (meta(record.obj).get("namespace") or "", meta(record.obj)["name"])
            self._remover.delete(target.resource, key, options)
        return _raw(
            view("object", target.resource, include="", now=self._cluster.clock()).many(page)
        )

    def _outcome(self, request: web.Request, target: Target, outcome: WriteResult) -> web.Response:
        body = self._view_maker(request, target)().one(Record(outcome.obj, 0))
        response = _raw(body, outcome.code)
        for warning in outcome.warnings:
            quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
            response.headers.add("Warning", f'299 - "{quoted}"')
        return response


def _call_soon(action: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(_NAMESPACE_DELAY, action)


def _raw(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _json(value: Json, status: int = 200) -> web.Response:
    return _raw(encode(value), status)

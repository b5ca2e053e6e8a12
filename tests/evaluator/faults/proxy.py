"""A proxy before an API server, which injects faults: functions of the proxy and a request, and what combines them."""

import asyncio
import contextlib
import itertools
import json

from aiohttp import web


async def passes(proxy, request):
    """No fault."""
    return await proxy.forward(request)


def slow(seconds):
    """Each request is delayed."""

    async def act(proxy, request):
        await asyncio.sleep(seconds)
        return await proxy.forward(request)

    return act


async def resets(_proxy, request):
    """The connection breaks before the request is forwarded."""
    request.transport.abort()
    return web.Response()


async def loses_answers(proxy, request):
    """The request is forwarded, and the connection breaks before its response."""
    if is_watch(request):
        return await resets(proxy, request)
    async with proxy.ask(request) as answer:
        await answer.read()
    return await resets(proxy, request)


def says(status, reason="", *, headers=None):
    """An error response as of an API server."""

    async def act(_proxy, _request):
        body = {"kind": "Status", "status": "Failure", "code": status, "message": reason}
        return web.json_response(body, status=status, headers=headers)

    return act


async def hangs(_proxy, _request):
    """The request is accepted and never answered."""
    await asyncio.Event().wait()


def ends_watches(after):
    """A watch ends normally after this many lines."""

    async def act(proxy, request):
        return await proxy.forward(request, lines=after if is_watch(request) else None)

    return act


async def tears_watches(proxy, request):
    """A watch breaks within its first event."""
    return await proxy.forward(request, torn=is_watch(request))


async def expires_watches(proxy, request):
    """A watch gets an Expired error event."""
    if not is_watch(request):
        return await proxy.forward(request)
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    return web.Response(text=json.dumps({"type": "ERROR", "object": status}) + "\n")


def only(wanted, act):
    """A fault for some requests only."""

    async def choose(proxy, request):
        return await (act if wanted(request) else passes)(proxy, request)

    return choose


def in_turn(*acts):
    """Alternating faults, request by request."""
    turns = itertools.cycle(acts)

    async def choose(proxy, request):
        return await next(turns)(proxy, request)

    return choose


def is_watch(request):
    return request.query.get("watch") == "true"


def is_write(request):
    return request.method != "GET"


class Proxy:
    """A reverse proxy; `weather` is the current fault."""

    def __init__(self, upstream, session):
        self.faults = passes
        self.asked = []
        self.token = ""
        """The required token in the Authorization header; empty: unchecked."""
        self._upstream = upstream
        self._session = session
        self._runner = None
        self._port = 0
        self._open = {}
        self._held = set()
        self._freeze = asyncio.Event()
        self._freeze.set()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._port}"

    async def start(self):
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True).start()
        self._port = self._runner.addresses[0][1]

    async def stop(self):
        """Start an outage: close the port and all connections."""
        for request in self._open.values():
            if request.transport is not None:
                request.transport.abort()
        await self._runner.cleanup()

    def freeze(self):
        """Freeze: open watches stay open without events, and no request is answered."""
        self._freeze.clear()

    def thaw(self):
        """End the freeze; requests that were not cancelled continue."""
        self._freeze.set()

    def hold_watches(self):
        """Stop the events of open watches without ending them; new watches work."""
        held = [id(request) for request in self._open.values() if is_watch(request)]
        self._held |= set(held)
        return held

    def spoil(self, act):
        """Change the fault and break open watches."""
        self.faults = act
        for request in self._open.values():
            if is_watch(request) and request.transport is not None:
                request.transport.abort()

    async def _handle(self, request):
        self.asked.append((request.method, request.path, is_watch(request)))
        self._open[id(request)] = request
        try:
            if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
                return await says(401, "Unauthorized")(self, request)
            await self._freeze.wait()
            return await self.faults(self, request)
        finally:
            del self._open[id(request)]

    def ask(self, request):
        headers = {
            name: request.headers[name]
            for name in ("Content-Type", "Accept")
            if name in request.headers
        }
        url = self._upstream + request.path_qs

        @contextlib.asynccontextmanager
        async def send():
            body = await request.read()
            async with self._session.request(
                request.method, url, data=body, headers=headers
            ) as answer:
                yield answer

        return send()

    async def forward(self, request, *, lines=None, torn=False):
        async with self.ask(request) as answer:
            response = web.StreamResponse(status=answer.status)
            response.content_type = answer.content_type
            if not is_watch(request):
                body = await answer.read()
                await self._freeze.wait()
                return web.Response(
                    status=answer.status, body=body, content_type=answer.content_type
                )
            await response.prepare(request)
            await self._pour(answer, request, response, lines, torn)
            return response

    async def _pour(self, answer, request, response, lines, torn):
        count = 0
        while lines is None or count < lines:
            line = await answer.content.readline()
            await self._freeze.wait()
            if id(request) in self._held:
                await asyncio.Event().wait()
            if not line:
                return
            if torn:
                await response.write(line[: len(line) // 2])
                request.transport.abort()
                return
            await response.write(line)
            count += 1

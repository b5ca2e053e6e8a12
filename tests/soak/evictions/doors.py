"""The sandbox's API server with a port for each client, so that faults concern one client at a time."""

import asyncio
import contextvars
from dataclasses import dataclass

from aiohttp import web

from sandbox.apiserver.server import ApiServer

client = contextvars.ContextVar("client", default="")
"""Whose request is handled."""


@dataclass
class Fault:
    """What happens to a share of a client's requests. `scope`: part of a path, or empty for all requests."""

    name: str
    share: float
    scope: str = ""
    seconds: float = 0.0
    then: object = None
    """A coroutine function to call after a request that was done, and before its answer is lost."""

    def concerns(self, request, rng):
        """Return whether it happens to a request."""
        if self.scope == "write":
            scoped = request.method not in {"GET", "HEAD"}
        else:
            scoped = self.scope in request.path
        return scoped and rng.random() < self.share


STATUSES = {"429": 429, "500": 500, "403": 403, "503": 503}
NAMES = (*STATUSES, "hang", "reset", "lost answer", "slow")


class Doors:
    """The ports. `faults`: by client; without one, requests are handled as usual."""

    def __init__(self, rng):
        self.api = ApiServer(history=2_000, bookmark_interval=2.0)
        self.faults = {}
        self.injected = {}
        """Requests with a fault, by its name."""
        self._rng = rng
        self._open = {}
        self.leader = ""
        """The client that wrote the Lease last."""
        self.store.listen(self._changed)
        self._runners = []

    @property
    def store(self):
        return self.api._cluster.store

    def _changed(self, change):
        if change.collection.startswith("leases") and client.get() != "admin":
            self.leader = client.get()

    async def open(self, name):
        """Return the URL of a client."""

        async def handle(request):
            client.set(name)
            self._open.setdefault(name, {})[id(request)] = request
            try:
                return await self._answer(name, request)
            finally:
                del self._open[name][id(request)]

        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True
        )
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._runners.append(runner)
        host, port = runner.addresses[0][:2]
        return f"http://{host}:{port}"

    def cut(self, name):
        """Break the watches and requests of a client."""
        for request in [*self._open.get(name, {}).values()]:
            if request.transport is not None:
                request.transport.abort()

    async def close(self):
        self.api._watches.close()
        await asyncio.gather(*(runner.cleanup() for runner in self._runners))

    async def _answer(self, name, request):
        fault = self.faults.get(name)
        if fault is None or not fault.concerns(request, self._rng):
            return await self.api._frontend.handle(request)
        self.injected[fault.name] = self.injected.get(fault.name, 0) + 1
        return await self._faulty(fault, request)

    async def _faulty(self, fault, request):
        is_watch = request.query.get("watch") == "true"
        match fault.name:
            case "hang":
                await asyncio.Event().wait()
            case "slow":
                await asyncio.sleep(fault.seconds)
                return await self.api._frontend.handle(request)
            case "lost answer" if not is_watch:
                await self.api._frontend.handle(request)
                if fault.then is not None:
                    await fault.then()
            case name if name in STATUSES:
                return _status(STATUSES[name], fault)
        request.transport.abort()
        return web.Response()


def _status(code, fault):
    body = {"kind": "Status", "code": code, "message": "injected", "status": "Failure"}
    headers = {"Retry-After": str(int(fault.seconds))} if code == 429 else {}
    return web.json_response(body, status=code, headers=headers)

"""The operator's port: is it alive, is it ready, what does it measure, and why did it decide so. Plain HTTP."""

from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler

from evaluator import explain
from evaluator.decider import Decider
from evaluator.metrics import Metrics
from evaluator.policy import PolicyKey


def app(decider: Decider, metrics: Metrics, *, clock: Callable[[], float]) -> web.Application:
    """The routes /healthz, /readyz, /metrics, /explain and /explain/<namespace>/<policy>."""

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        if decider.waiting_for:
            return web.Response(status=503, text=f"waiting for {', '.join(decider.waiting_for)}\n")
        return web.Response(text="ok\n")

    async def overview(_request: web.Request) -> web.Response:
        return _json({"waitingFor": list(decider.waiting_for), **explain.overview(decider.latest)})

    async def policy(request: web.Request) -> web.Response:
        key = PolicyKey(request.match_info["namespace"], request.match_info["policy"])
        found = explain.explain(decider.explainable(), key, now=clock())
        if found is None:
            known = ", ".join(str(key) for key in decider.latest.policies) or "none"
            return _json({"error": f"no policy {key}; known: {known}"}, status=404)
        return _json({"waitingFor": list(decider.waiting_for), **found})

    routes = web.Application()
    routes.router.add_get("/healthz", healthz)
    routes.router.add_get("/readyz", readyz)
    routes.router.add_get("/metrics", make_aiohttp_handler(metrics.registry))
    routes.router.add_get("/explain", overview)
    routes.router.add_get("/explain/{namespace}/{policy}", policy)
    return routes


def _json(body: dict[str, Any], status: int = 200) -> web.Response:
    text = msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"
    return web.Response(body=text, status=status, content_type="application/json")

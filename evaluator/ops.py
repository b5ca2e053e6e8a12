"""The operator's port: is it alive, is it ready, what does it measure, and why did it decide so. Plain HTTP."""

import gzip
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import msgspec
from prometheus_client.exposition import choose_encoder, gzip_accepted

from evaluator import explain
from evaluator.decider import Decider
from evaluator.metrics import Metrics
from evaluator.policy import PolicyKey
from plimsoll.http.limits import Limits
from plimsoll.http.messages import Handler, Request, Response, plain_refusal
from plimsoll.http.routes import Route, Routes

LIMITS = Limits(body_bytes=64 << 10, bodies_bytes=1 << 20, connections=64)
"""Nothing that is asked here has a body; one that comes is read and thrown away."""

_GZIP_FROM = 1400
"""Bytes: what fits one packet gains nothing."""


class Operations:
    """/healthz, /readyz, /metrics, /explain and /explain/<namespace>/<policy>. `clock` is the decider's."""

    def __init__(self, decider: Decider, metrics: Metrics, *, clock: Callable[[], float]) -> None:
        self._decider = decider
        self._metrics = metrics
        self._clock = clock

    @property
    def answer(self) -> Handler:
        """What the port answers."""
        routes = {
            "/healthz": Route(self._health),
            "/readyz": Route(self._readiness),
            "/metrics": Route(self._exposition),
            "/explain": Route(self._overview),
            "/explain/": Route(self._policy),
        }
        return Routes(routes, plain_refusal).answer

    async def _health(self, _request: Request) -> Response:
        return Response(HTTPStatus.OK, b"ok\n")

    async def _readiness(self, _request: Request) -> Response:
        if waiting := self._decider.waiting_for:
            text = f"waiting for {', '.join(waiting)}\n"
            return Response(HTTPStatus.SERVICE_UNAVAILABLE, text.encode())
        return Response(HTTPStatus.OK, b"ok\n")

    async def _exposition(self, request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        body = encode(self._metrics.registry)
        extra: tuple[tuple[str, str], ...] = (("vary", "Accept, Accept-Encoding"),)
        if len(body) >= _GZIP_FROM and gzip_accepted(request.headers.get("accept-encoding", "")):
            body = gzip.compress(body, 1, mtime=0)
            extra = (*extra, ("content-encoding", "gzip"))
        return Response(HTTPStatus.OK, body, content_type, extra)

    async def _overview(self, _request: Request) -> Response:
        return _json({**self._waiting(), **explain.overview(self._decider.latest)})

    async def _policy(self, request: Request) -> Response:
        key = PolicyKey(*_names(request.path))
        found = explain.explain(self._decider.explainable(), key, now=self._clock())
        if found is None:
            known = ", ".join(str(key) for key in self._decider.latest.policies) or "none"
            return _json({"error": f"no policy {key}; known: {known}"}, HTTPStatus.NOT_FOUND)
        return _json({**self._waiting(), **found})

    def _waiting(self) -> dict[str, Any]:
        return {"waitingFor": list(self._decider.waiting_for)}


def _names(path: str) -> tuple[str, str]:
    """Namespace and name in /explain/<namespace>/<name>."""
    namespace, _, name = path.removeprefix("/explain/").partition("/")
    return unquote(namespace), unquote(name)


def _json(body: dict[str, Any], status: HTTPStatus = HTTPStatus.OK) -> Response:
    text = msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"
    return Response(status, text, "application/json")

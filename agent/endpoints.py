"""What each path of the agent answers: metrics, whether it lives and is ready, and a page that says where to look."""

import asyncio
import gzip
import html
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from http import HTTPStatus

from agent import exposition
from agent.rounds import Rounds, combine
from agent.selfmetrics import SelfMetrics
from agent.server import Request, Response
from plimsoll import VERSION

_GZIP_LEVEL = 1  # text this repetitive shrinks nine-fold at once; more effort costs the node more than it saves the wire
_GZIP_FROM = 1400  # bytes: what fits one packet gains nothing

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Plimsoll agent</title></head>
<body style="font-family: sans-serif; margin: 2em">
<h1>Plimsoll agent {version}</h1>
<p>Reads what <b>{node}</b> feels: {collectors}.</p>
<ul>
<li><a href="{metrics}">Metrics</a>, for Prometheus; <code>?collect[]=cpu</code> asks for one collector</li>
<li><a href="/healthz">/healthz</a>: the process lives</li>
<li><a href="/readyz">/readyz</a>: the collectors have run once</li>
</ul>
</body></html>
"""


class Endpoints:
    """The agent's pages. `ready` is set by whoever saw the first round end."""

    def __init__(self, rounds: Rounds, own: SelfMetrics, *, node: str, telemetry_path: str) -> None:
        self._rounds = rounds
        self._own = own
        self._node = node
        self._telemetry_path = telemetry_path
        self._pages: Mapping[str, Callable[[Request], Awaitable[Response]]] = {
            "/": self._landing,
            "/healthz": self._health,
            "/readyz": self._readiness,
            telemetry_path: self._metrics,
        }
        self.ready = False

    async def answer(self, request: Request) -> Response:
        """The reply to any request."""
        page = self._pages.get(request.path)
        if page is None:
            return _text(
                HTTPStatus.NOT_FOUND, f"no such page; metrics are at {self._telemetry_path}"
            )
        if request.method not in {"GET", "HEAD"}:
            refusal = _text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD")
            return Response(refusal.status, refusal.body, headers=(("allow", "GET, HEAD"),))
        return await page(request)

    async def _health(self, _: Request) -> Response:
        return _text(HTTPStatus.OK, "ok")

    async def _readiness(self, _: Request) -> Response:
        if self.ready:
            return _text(HTTPStatus.OK, "ok")
        return _text(
            HTTPStatus.SERVICE_UNAVAILABLE, "the first round of the collectors is not over"
        )

    async def _landing(self, _: Request) -> Response:
        page = _PAGE.format(
            version=html.escape(VERSION),
            node=html.escape(self._node),
            collectors=html.escape(", ".join(self._rounds.names)),
            metrics=html.escape(self._telemetry_path),
        )
        return Response(HTTPStatus.OK, page.encode(), "text/html; charset=utf-8")

    async def _metrics(self, request: Request) -> Response:
        try:
            names = choose(request.query, self._rounds.names)
        except ValueError as error:
            response = _text(HTTPStatus.BAD_REQUEST, str(error))
        else:
            response = await asyncio.to_thread(self._scrape, request.headers, names)
        self._own.scrapes.labels(str(int(response.status))).inc()
        return response

    def _scrape(self, headers: Mapping[str, str], names: Collection[str] | None) -> Response:
        """One round, written the way the client likes it; in a thread, because collectors block."""
        families, _ = combine([self._rounds.run(names).families, self._own.families()])
        wanted = exposition.negotiate(headers.get("accept", ""))
        body = wanted.encode(sorted(families, key=lambda family: family.name))
        extra: tuple[tuple[str, str], ...] = (("vary", "Accept, Accept-Encoding"),)
        if len(body) >= _GZIP_FROM and exposition.accepts_gzip(headers.get("accept-encoding", "")):
            body = gzip.compress(body, _GZIP_LEVEL, mtime=0)
            extra = (*extra, ("content-encoding", "gzip"))
        return Response(HTTPStatus.OK, body, wanted.content_type, extra)


def choose(query: Mapping[str, Sequence[str]], enabled: Sequence[str]) -> Collection[str] | None:
    """The collectors that `collect[]` or `exclude[]` ask for; None for all. ValueError if they make no sense."""
    collect, exclude = query.get("collect[]", ()), query.get("exclude[]", ())
    if collect and exclude:
        raise ValueError("collect[] and exclude[] do not go together")
    for name in (*collect, *exclude):
        if name not in enabled:
            raise ValueError(f"no enabled collector {name!r}; there are: {', '.join(enabled)}")
    if exclude:
        return frozenset(enabled) - frozenset(exclude)
    return frozenset(collect) or None


def _text(status: HTTPStatus, text: str) -> Response:
    return Response(status, f"{text}\n".encode())

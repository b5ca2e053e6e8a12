"""The agent's HTTP endpoints: metrics, liveness, readiness, and a landing page."""

import asyncio
import contextlib
import gzip
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from operator import attrgetter
from typing import TYPE_CHECKING

from agent.rule_results import RuleResults
from agent.scrape import exposition
from agent.scrape.runner import CollectorRunner, ScrapeMaker
from agent.scrape.self_metrics import SelfMetrics
from collectors.interface.sample import Family
from plimsoll import logs
from plimsoll.fairlock import TooManyWaitError
from plimsoll.http.types import Request, Response, preference

if TYPE_CHECKING:
    from agent.scrape.landing import LandingPage

log = logs.get(__name__)

_GZIP_LEVEL = 1  # text this repetitive shrinks nine-fold at level 1; higher levels cost more CPU than they save bandwidth
_GZIP_FROM = 1400  # bytes: a reply that fits in one packet gains nothing

# Probed by a kubelet without user or certificate; the answer has no details.
OPEN_PATHS = frozenset({"/healthz", "/readyz"})

_FAILURE = Response(HTTPStatus.INTERNAL_SERVER_ERROR, b"internal error\n")


_PROFILES = "no profiles here: this agent is a Python program without Go's pprof, and process_* and python_* are among its metrics"


def _missing(path: str) -> str:
    return _PROFILES if path.startswith("/debug/pprof") else "no such page"


class Endpoints:
    """The agent's endpoints. `ready` is set after the first scrape of all collectors."""

    def __init__(
        self,
        collector_runner: CollectorRunner,
        own: SelfMetrics,
        *,
        node: str,
        telemetry_path: str,
        max_requests: int = 40,
        recorder: RuleResults | None = None,
    ) -> None:
        """`max_requests`: scrapes answered at once; 0 for no limit other than connections."""
        self._runner = collector_runner
        self._own = own
        self._recorder = recorder
        self._node = node
        self._telemetry_path = telemetry_path
        self._pages: Mapping[str, Callable[[Request], Awaitable[Response]]] = {
            "/": self._landing,
            "/index.json": self._landing,
            "/healthz": self._health,
            "/readyz": self._readiness,
            telemetry_path: self._metrics,
        }
        self._max_requests = max_requests
        self._scraping = 0
        self._page: LandingPage | None = None
        self.ready = False

    async def answer(self, request: Request) -> Response:
        """Return the reply to a request."""
        page = self._pages.get(request.path)
        if page is None and request.path.startswith("/assets/"):
            page = self._asset
        if page is None:
            return _text(
                HTTPStatus.NOT_FOUND,
                f"{_missing(request.path)}; metrics are at {self._telemetry_path}",
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

    async def _landing(self, request: Request) -> Response:
        from agent.scrape.landing import LandingPage  # with Jinja2, for visitors only

        if self._page is None:
            self._page = LandingPage(
                self._runner,
                self._own,
                self._recorder,
                node=self._node,
                telemetry_path=self._telemetry_path,
            )
        try:
            return await self._page.answer(request, ready=self.ready)
        except TooManyWaitError:
            return _text(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests for this page")

    async def _asset(self, request: Request) -> Response:
        from plimsoll.html import assets  # as above

        return assets.answer(request.path)

    async def _metrics(self, request: Request) -> Response:
        try:
            names = choose(request.query, self._runner.names)
        except ValueError as error:
            response = _text(HTTPStatus.BAD_REQUEST, str(error))
        else:
            response = await self._bounded(request.headers, names)
        self._own.scraped(int(response.status))
        return response

    async def _bounded(self, headers: Mapping[str, str], names: Collection[str] | None) -> Response:
        if self._max_requests and self._scraping >= self._max_requests:
            text = f"{self._max_requests} scrapes are being answered, which is the limit; try again later"
            return _text(HTTPStatus.SERVICE_UNAVAILABLE, text)
        self._scraping += 1
        try:
            return await self._scrape(headers, names)
        finally:
            self._scraping -= 1

    async def _scrape(self, headers: Mapping[str, str], names: Collection[str] | None) -> Response:
        """Return one scrape, encoded in the thread that collected it: each further thread involved costs as much as a collector."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Response] = loop.create_future()

        def write(make: ScrapeMaker) -> None:
            try:
                families = self._families(make, whole=names is None)
                settle = partial(_settle, answer, _written(headers, families))
            except Exception:
                log.exception("scrape failed")
                settle = partial(_settle, answer, _FAILURE)
            with contextlib.suppress(RuntimeError):  # the agent has stopped
                loop.call_soon_threadsafe(settle)

        look = self._runner.start(names, write)
        while not answer.done():
            await asyncio.wait([answer], timeout=self._runner.moment)
            if not answer.done():
                await asyncio.to_thread(look)
        return answer.result()

    def _families(self, make: ScrapeMaker, *, whole: bool) -> Sequence[Family]:
        """Return a scrape with metrics about the agent; recorded metrics only if all collectors were requested."""
        if self._recorder is None:
            return make(self._own.families()).families
        families = make([*self._own.families(), *self._recorder.accounts()]).families
        recorded = self._recorder.not_collected(families) if whole else ()
        return sorted((*families, *recorded), key=attrgetter("name")) if recorded else families


def _written(headers: Mapping[str, str], families: Sequence[Family]) -> Response:
    """Return families in the format and encoding that the client accepts."""
    encoder = exposition.negotiate(preference(headers, "accept"))
    body = encoder.encode(families)
    extra: tuple[tuple[str, str], ...] = (("vary", "Accept, Accept-Encoding"),)
    if len(body) >= _GZIP_FROM and exposition.accepts_gzip(preference(headers, "accept-encoding")):
        body = gzip.compress(body, _GZIP_LEVEL, mtime=0)
        extra = (*extra, ("content-encoding", "gzip"))
    return Response(HTTPStatus.OK, body, encoder.content_type, extra)


def _settle(answer: asyncio.Future[Response], response: Response) -> None:
    if not answer.done():  # the client is gone
        answer.set_result(response)


def choose(query: Mapping[str, Sequence[str]], enabled: Sequence[str]) -> Collection[str] | None:
    """Return the collectors selected by `collect[]` or `exclude[]`; None for all. Raises ValueError if these are invalid."""
    collect, exclude = query.get("collect[]", ()), query.get("exclude[]", ())
    if collect and exclude:
        raise ValueError("collect[] and exclude[] cannot be combined")
    for name in (*collect, *exclude):
        if name not in enabled:
            raise ValueError(
                f"collector {name!r} is not enabled; enabled are: {', '.join(enabled)}"
            )
    if exclude:
        return frozenset(enabled) - frozenset(exclude)
    return frozenset(collect) or None


def _text(status: HTTPStatus, text: str) -> Response:
    return Response(status, f"{text}\n".encode())

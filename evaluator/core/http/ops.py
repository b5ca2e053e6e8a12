"""The operations port: health, readiness, metrics and explanations over plain HTTP."""

import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Any

from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder, gzip_accepted
from prometheus_client.samples import Sample

from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.metrics import SLICE, Metrics
from evaluator.features.pages.as_json import error, parts
from evaluator.features.pages.browser import BrowserPages
from evaluator.features.pages.json_pages import ExplainPages
from evaluator.features.pages.reports import Reports
from evaluator.features.pages.slices import WAITING
from evaluator.features.pages.targets import EXPLAIN, PATHS
from plimsoll.fairlock import FairLock, TooManyWaitError
from plimsoll.html import assets
from plimsoll.http.limits import Limits, RequestRate
from plimsoll.http.pieces import unhurried
from plimsoll.http.routes import Route, Routes
from plimsoll.http.types import Handler, Request, Response, plain_rejection, preference

LIMITS = Limits(
    body_bytes=0,
    bodies_bytes=0,
    connections=32,
    sending=8,
    requests=RequestRate(connection=20.0, address=100.0, burst=100),
)
"""No request has a body here: one that announces a body is refused (413).

Prometheus, kubelet and some people need few connections; an explanation of thousands of nodes is some megabytes, held
for each of them that reads slowly. 6,600 answers a second, each a 404, would raise kube-scheduler's latency four times.
"""

_GZIP_FROM = 1400
"""Smallest body in bytes to compress: one packet gains nothing."""
_DEFLATED = 64 << 10
"""Bytes compressed per step, in at most a millisecond."""
_EOF = b"# EOF\n"
"""The end marker of OpenMetrics, which the encoder also writes for an empty registry."""


class OpsServer:
    """/healthz, /readyz, /metrics, and pages with `reports` (None: they are off), as JSON at /explain and for a browser.

    The port has no authentication, so pages must not delay kube-scheduler: they are built one at a time, with pauses as
    long as the work.
    """

    def __init__(
        self,
        decider: DecisionLoop,
        metrics: Metrics,
        *,
        reports: Reports | None = None,
        waiting_for: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`waiting_for`: what else must be there before this replica is ready."""
        self._decider = decider
        self._metrics = metrics
        self._explain = ExplainPages(reports) if reports else None
        self._browser = BrowserPages(reports) if reports else None
        self._waiting_for = waiting_for
        self._scraping = FairLock(WAITING)

    @property
    def answer(self) -> Handler:
        """The routes of the port."""
        explain, browser = self._explain, self._browser
        routes = {
            "/healthz": Route(self._health),
            "/readyz": Route(self._readiness),
            "/metrics": Route(self._exposition),
            EXPLAIN: Route(explain.answer if explain else self._switched_off),
            f"{EXPLAIN}/": Route(explain.answer if explain else self._switched_off),
        }
        page = browser.answer if browser else self._switched_off
        routes |= {path: Route(page) for path in PATHS}
        if browser is not None:
            routes[assets.FOLDER] = Route(browser.asset)
        return _unless_too_many_wait(Routes(routes, plain_rejection).answer)

    async def _health(self, _request: Request) -> Response:
        return Response(HTTPStatus.OK, b"ok\n")

    async def _readiness(self, _request: Request) -> Response:
        if waiting := list(dict.fromkeys([*self._decider.waiting_for, *self._waiting_for()])):
            text = f"waiting for {', '.join(waiting)}\n"
            return Response(HTTPStatus.SERVICE_UNAVAILABLE, text.encode())
        return Response(HTTPStatus.OK, b"ok\n")

    async def _exposition(self, request: Request) -> Response:
        encode, content_type = _encoder(preference(request.headers, "accept"))
        extra: tuple[tuple[str, str], ...] = (("vary", "Accept, Accept-Encoding"),)
        async with self._scraping.hold():
            pieces = await unhurried(_exposed(self._metrics.registry.collect(), encode))
            long = sum(map(len, pieces)) >= _GZIP_FROM
            if long and gzip_accepted(preference(request.headers, "accept-encoding")):
                pieces = await unhurried(_compressed(pieces))
                extra = (*extra, ("content-encoding", "gzip"))
        return Response(HTTPStatus.OK, parts(pieces), content_type, extra)

    async def _switched_off(self, request: Request) -> Response:
        what = "/explain is" if request.path.startswith("/explain") else "pages are"
        return error(f"{what} off (--no-explain)")


def _unless_too_many_wait(handler: Handler) -> Handler:
    """The handler's response, or 503 if too many clients wait."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except TooManyWaitError:
            text = b"too many clients wait for this page: try again\n"
            retry = (("retry-after", "1"),)
            return Response(HTTPStatus.SERVICE_UNAVAILABLE, text, headers=retry)

    return answer


def _encoder(accept: str) -> tuple[Callable[[Any], bytes], str]:
    """The exposition format the scraper prefers; the library fails on versions that are not numbers."""
    try:
        return choose_encoder(accept if accept.isascii() else "")
    except (TypeError, ValueError):
        return choose_encoder("")


class _Family:
    """A registry of one metric family or none, to encode families one by one."""

    def __init__(self, *families: Metric) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _exposed(families: Iterable[Metric], encode: Callable[[Any], bytes]) -> Iterator[bytes]:
    """An exposition in pieces of some samples. Only the first piece of a family has its header."""
    name = ""
    for family in itertools.chain.from_iterable(map(_sliced, families)):
        piece = encode(_Family(family)).removesuffix(_EOF)
        yield _without_header(piece) if family.name == name else piece
        name = family.name
    yield encode(_Family())


def _sliced(family: Metric) -> Iterator[Metric]:
    """A family as several of its name; a histogram whole, as its buckets belong together."""
    if family.type not in {"gauge", "counter"} or len(family.samples) <= SLICE:
        yield family
        return
    for begin in range(0, len(family.samples), SLICE):
        yield _with_samples(family, family.samples[begin : begin + SLICE])


def _with_samples(family: Metric, samples: list[Sample]) -> Metric:
    made = Metric(family.name, family.documentation, family.type, family.unit)
    made.samples = samples
    return made


def _without_header(piece: bytes) -> bytes:
    while piece.startswith(b"#"):
        piece = piece.partition(b"\n")[2]
    return piece


def _compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces compressed with gzip."""
    compressor = zlib.compressobj(1, wbits=16 + zlib.MAX_WBITS)
    for piece in pieces:
        for begin in range(0, len(piece), _DEFLATED):
            yield compressor.compress(piece[begin : begin + _DEFLATED])
    yield compressor.flush()

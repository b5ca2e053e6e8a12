"""The operations port: health, readiness, metrics and explanations over plain HTTP."""

import asyncio
import itertools
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder, gzip_accepted
from prometheus_client.samples import Sample

from evaluator.engine.loop import DecisionLoop
from evaluator.gangs.core import explain as explaingang
from evaluator.gangs.core.explain import GangExplainer
from evaluator.metrics import SLICE, Metrics
from evaluator.model.names import PolicyKey
from evaluator.model.steps import Steps
from evaluator.plans import explain
from evaluator.plans.enforcement import NO_EFFECTS, Effects
from evaluator.scorerhost import explain as explainpod
from evaluator.scorerhost.pod_explainer import PodExplainer
from evaluator.scorerhost.runner import ScorerError
from plimsoll.fairlock import FairLock, TooManyWaitError
from plimsoll.http.limits import Limits
from plimsoll.http.routes import Route, Routes
from plimsoll.http.types import Handler, Parts, Request, Response, plain_rejection, preference

LIMITS = Limits(body_bytes=0, bodies_bytes=0, connections=32, sending=8)
"""No request has a body here: one that announces a body is refused (413).

Prometheus, kubelet and some people need few connections; an explanation of thousands of nodes is some megabytes, held
for each of them that reads slowly.
"""

_GZIP_FROM = 1400
"""Smallest body in bytes to compress: one packet gains nothing."""
_DEFLATED = 64 << 10
"""Bytes compressed per step, in at most a millisecond."""
_EOF = b"# EOF\n"
"""The end marker of OpenMetrics, which the encoder also writes for an empty registry."""
_SLICE = 0.001
"""Seconds of work on a page before yielding to requests of kube-scheduler."""
_READABLE = 64 << 10
"""Largest JSON in bytes that is indented; larger pages are for programs."""
_BATCH = 50
"""Entries of a list in one piece of the body."""
_WAITING = 7
"""Clients that may wait while a page is built."""
_SHOWN = 400
"""Characters of a name shown in an error; names in Kubernetes are shorter."""
_LONGEST_PATH = 2_000
"""Longest path that is decoded; a namespace and a name have at most 506 characters."""
_NAMED = 10
"""Policies named in an error; others are counted."""

T = TypeVar("T")


class OpsServer:
    """/healthz, /readyz, /metrics, /explain, /explain/<namespace>/<policy>, /explain?pod=<namespace>/<name>
    and /explain?gang=<namespace>/<podGroup>; without a value, all waiting gangs.

    `clock` is that of the decision loop; `panel` explains pods if scorers are on, `desk` explains gangs if gangs are on.

    The port has no authentication, so pages must not delay kube-scheduler: they are built one at a time, with pauses as
    long as the work.
    """

    def __init__(
        self,
        decider: DecisionLoop,
        metrics: Metrics,
        *,
        clock: Callable[[], float],
        effects: Effects = NO_EFFECTS,
        explaining: bool = True,
        pod_explainer: PodExplainer | None = None,
        gang_explainer: GangExplainer | None = None,
    ) -> None:
        self._decider = decider
        self._metrics = metrics
        self._clock = clock
        self._effects = effects
        self._explaining = explaining
        self._pod_explainer = pod_explainer
        self._gang_explainer = gang_explainer
        self._making = FairLock(_WAITING)
        self._scraping = FairLock(_WAITING)

    @property
    def answer(self) -> Handler:
        """The routes of the port."""
        routes = {
            "/healthz": Route(self._health),
            "/readyz": Route(self._readiness),
            "/metrics": Route(self._exposition),
            "/explain": Route(self._overview if self._explaining else self._switched_off),
            "/explain/": Route(self._policy if self._explaining else self._switched_off),
        }
        return _unless_too_many_wait(Routes(routes, plain_rejection).answer)

    async def _health(self, _request: Request) -> Response:
        return Response(HTTPStatus.OK, b"ok\n")

    async def _readiness(self, _request: Request) -> Response:
        scorers = self._pod_explainer.waiting_for if self._pod_explainer else ()
        if waiting := list(dict.fromkeys([*self._decider.waiting_for, *scorers])):
            text = f"waiting for {', '.join(waiting)}\n"
            return Response(HTTPStatus.SERVICE_UNAVAILABLE, text.encode())
        return Response(HTTPStatus.OK, b"ok\n")

    async def _exposition(self, request: Request) -> Response:
        encode, content_type = _encoder(preference(request.headers, "accept"))
        extra: tuple[tuple[str, str], ...] = (("vary", "Accept, Accept-Encoding"),)
        async with self._scraping.hold():
            pieces = await _unhurried(_exposed(self._metrics.registry.collect(), encode))
            long = sum(map(len, pieces)) >= _GZIP_FROM
            if long and gzip_accepted(preference(request.headers, "accept-encoding")):
                pieces = await _unhurried(_compressed(pieces))
                extra = (*extra, ("content-encoding", "gzip"))
        return Response(HTTPStatus.OK, _parts(pieces), content_type, extra)

    async def _overview(self, request: Request) -> Response:
        if pods := request.query.get("pod"):
            return await self._pod(pods[-1])
        if gangs := request.query.get("gang"):
            return await self._gang(gangs[-1])
        async with self._making.hold():
            decisions = self._decider.latest
            pieces = await _unhurried(map(msgspec.json.encode, explain.overview(decisions)))
            head = self._waiting()
            if (more := len(decisions.policies) - len(pieces)) > 0:
                head["policiesMore"] = more
            return _page(head, policies=(b"[]", pieces))

    async def _policy(self, request: Request) -> Response:
        if len(request.path) > _LONGEST_PATH:
            return _error("the name is too long for a policy")
        key = PolicyKey(*_names(request.path))
        async with self._making.hold():
            decisions, now = self._decider.latest, self._clock()
            node = request.query.get("node", ("",))[-1]
            if node and node not in decisions.table.nodes.position:
                return _error(f"no node {node[:_SHOWN]}")
            await _unhurried(self._effects.catching_up(decisions))
            with self._decider.readings() as readings:
                found = await _stepwise(
                    explain.explain(
                        decisions, key, readings, now=now, effects=self._effects, node=node
                    )
                )
            if found is None:
                return _error(f"no policy {key}; known: {self._known()}")
            pieces = await _unhurried(itertools.starmap(_entry, found.nodes))
            head = {**self._waiting(), **found.head}
            return _page(head, nodes=(b"{}", pieces))

    async def _pod(self, name: str) -> Response:
        """The scores of a pod on all nodes."""
        if (pod_explainer := self._pod_explainer) is None:
            return _error("scorers are off (--scorers)")
        if waiting := pod_explainer.waiting_for:
            sentence = f"waiting for {', '.join(waiting)}"
            return _error(sentence, HTTPStatus.SERVICE_UNAVAILABLE)
        if (found := pod_explainer.find(name)) is None:
            return _error(f"no pod {name[:_SHOWN]} (written as <namespace>/<name>)")
        async with self._making.hold():
            try:
                opinions = await _unhurried(pod_explainer.opinions(found))
            except ScorerError as error:
                return _error(str(error), HTTPStatus.INTERNAL_SERVER_ERROR)
            explanation = explainpod.explain(found.view, opinions)
            pieces = await _unhurried(itertools.starmap(_entry, explanation.nodes))
            head = {**explanation.head, **_placed(found.node)}
            if found.problems:
                head["problems"] = list(found.problems)
            return _page(head, nodes=(b"{}", pieces))

    async def _gang(self, name: str) -> Response:
        """The state of a gang and the reason."""
        if (gang_explainer := self._gang_explainer) is None:
            return _error("gangs are off (--gangs)")
        if waiting := gang_explainer.waiting_for():
            sentence = f"waiting for {', '.join(waiting)}"
            return _error(sentence, HTTPStatus.SERVICE_UNAVAILABLE)
        if not name:
            return await self._queue(gang_explainer)
        if (gang := gang_explainer.find(name)) is None:
            return _error(gang_explainer.unknown(name[:_SHOWN]))
        async with self._making.hold():
            line = await _unhurried(gang_explainer.line(gang))
            await _unhurried(gang_explainer.catching_up())
            fit = gang_explainer.fit(gang)
            nodes = await _unhurried(itertools.starmap(_entry, fit.nodes()))
            members = await _unhurried(itertools.starmap(_entry, explaingang.members(gang)))
            head = {**gang_explainer.head(gang, line), "fit": fit.shapes()}
            return _page(head, members=(b"{}", members), nodes=(b"{}", nodes))

    async def _queue(self, gang_explainer: GangExplainer) -> Response:
        """All waiting gangs."""
        async with self._making.hold():
            waiting = await _unhurried(gang_explainer.waiting())
            pieces = await _unhurried(map(msgspec.json.encode, gang_explainer.queue(waiting)))
            head = {"waitingFor": list(gang_explainer.undecided())}
            return _page(head, gangs=(b"[]", pieces))

    async def _switched_off(self, _request: Request) -> Response:
        return _error("/explain is off (--no-explain)")

    def _known(self) -> str:
        policies = [str(key) for key in self._decider.latest.policies]
        more = f" and {len(policies) - _NAMED} more" if len(policies) > _NAMED else ""
        return (", ".join(policies[:_NAMED]) or "none") + more

    def _waiting(self) -> dict[str, Any]:
        return {"waitingFor": list(self._decider.waiting_for)}


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


def _names(path: str) -> tuple[str, str]:
    """The namespace and name in /explain/<namespace>/<name>."""
    namespace, _, name = path.removeprefix("/explain/").partition("/")
    return unquote(namespace), unquote(name)


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


async def _unhurried(pieces: Iterable[T]) -> list[T]:
    """The pieces of a page, yielding to the event loop between them."""
    made, begun = [], time.perf_counter()
    for piece in pieces:
        made.append(piece)
        if (worked := time.perf_counter() - begun) > _SLICE:
            await asyncio.sleep(worked)
            begun = time.perf_counter()
    return made


async def _stepwise(steps: Steps[T]) -> T:
    """The result of a generator, yielding to the event loop between its steps."""
    done: list[T] = []

    def result() -> Iterator[None]:
        done.append((yield from steps))

    await _unhurried(result())
    return done[0]


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


def _parts(pieces: Sequence[bytes]) -> Parts:
    """The pieces joined into one body and cleared."""
    return Parts(sum(map(len, pieces)), pieces)


def _entry(name: str, value: object) -> bytes:
    return b"%s: %s" % (msgspec.json.encode(name), msgspec.json.encode(value))


def _page(head: dict[str, Any], **lists: tuple[bytes, Sequence[bytes]]) -> Response:
    """A JSON object: some fields, then lists (brackets, encoded entries) with one entry a line, readable and greppable.

    The body stays in pieces: joining megabytes takes milliseconds.
    """
    fields = msgspec.json.encode(head)
    if len(fields) < _READABLE:
        fields = msgspec.json.format(fields, indent=2)
    pieces = [fields.removesuffix(b"}").rstrip()]
    for name, (brackets, entries) in lists.items():
        begin, end = brackets[:1], brackets[1:]
        pieces.append(b',\n  "%s": %s' % (name.encode(), begin))
        for batch in range(0, len(entries), _BATCH):
            lines = b",\n    ".join(entries[batch : batch + _BATCH])
            pieces.append((b",\n    " if batch else b"\n    ") + lines)
        pieces.append(b"\n  " + end if entries else end)
    pieces.append(b"\n}\n")
    return Response(HTTPStatus.OK, _parts(pieces), "application/json")


def _placed(node: str) -> dict[str, str]:
    """The node of a pod, if it is bound."""
    if not node:
        return {}
    looked = "it is scored like a new pod: its requests and usage already count on that node"
    return {"node": node, "placed": looked}


def _error(sentence: str, status: HTTPStatus = HTTPStatus.NOT_FOUND) -> Response:
    body = msgspec.json.format(msgspec.json.encode({"error": sentence}), indent=2) + b"\n"
    return _json(body, status)


def _json(body: bytes, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(status, body, "application/json")

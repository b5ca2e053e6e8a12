"""The scheduler's HTTP side: bytes in, one look at the current decisions, bytes out. Never an empty answer."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping

import aiohttp
from aiohttp import web

from evaluator.decisions import Decisions
from evaluator.extender import messages, verbs
from evaluator.extender.connection import Connection, CutShortError, Site
from evaluator.metrics import Metrics
from plimsoll import logs

log = logs.get(__name__)

_JSON = "application/json"

Verb = Callable[[messages.Args, Decisions], tuple[str, bytes]]


class TooLargeError(Exception):
    """A body beyond the cap."""


class TooSlowError(Exception):
    """A body that stopped coming."""


_REFUSALS: Mapping[type[Exception], int] = {
    messages.BadRequestError: 400,
    TooSlowError: 408,
    TooLargeError: 413,
    verbs.NotReadyError: 503,
}


class Extender:
    """Answers /scheduler/filter and /scheduler/prioritize from whatever `decisions()` returns at that moment.

    `decisions` raises verbs.NotReadyError while there is nothing to decide on.
    """

    def __init__(
        self,
        decisions: Callable[[], Decisions],
        metrics: Metrics,
        *,
        max_body: int = 128 << 20,
        patience: float = 30.0,
    ) -> None:
        self._decisions = decisions
        self._metrics = metrics
        self._max_body = max_body
        self._patience = patience

    def app(self) -> web.Application:
        """The routes. `bind` is not ours, and says so as TAS does: 404."""
        app = web.Application(client_max_size=self._max_body, middlewares=[_json_errors])
        app.router.add_post("/scheduler/filter", self._handler("filter", self._filter))
        app.router.add_post("/scheduler/prioritize", self._handler("prioritize", self._prioritize))
        return app

    def _handler(self, name: str, verb: Verb) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            status, outcome = 200, "refused"
            try:
                received = await _read(request, self._max_body, self._patience)
                begin = time.perf_counter()
                outcome, body = verb(messages.decode(received), self._decisions())
                self._metrics.request_seconds.labels(name).observe(time.perf_counter() - begin)
            except tuple(_REFUSALS) as error:
                status, body = _REFUSALS[type(error)], messages.encode_error(str(error))
                log.warning("%s refused", name, status=status, error=str(error))
            self._metrics.requests.labels(name, status, outcome).inc()
            response = web.Response(body=body, status=status, content_type=_JSON)
            if status == 408:
                request.content.feed_eof()  # what has stopped coming is not waited for after the answer either
                response.force_close()
            return response

        return handle

    def _filter(self, args: messages.Args, decisions: Decisions) -> tuple[str, bytes]:
        answer = verbs.answer_filter(args, decisions)
        self._metrics.filtered_nodes.inc(len(answer.failed))
        pod = f"{args.namespace}/{args.pod}"
        if answer.outcome is verbs.Outcome.DECIDED:
            passing = " ".join(name for name in args.names if name not in answer.failed)
            log.info(
                "Filtered nodes for %s: %s", answer.policy, passing, pod=pod, policy=answer.policy
            )
        else:
            log.info("All nodes pass", pod=pod, policy=answer.policy, why=answer.outcome.value)
        return answer.outcome, messages.encode_filter(args, answer.failed)

    def _prioritize(self, args: messages.Args, decisions: Decisions) -> tuple[str, bytes]:
        answer = verbs.answer_prioritize(args, decisions)
        if answer.outcome is not verbs.Outcome.DECIDED:
            pod = f"{args.namespace}/{args.pod}"
            log.info("No node preferred", pod=pod, policy=answer.policy, why=answer.outcome.value)
        return answer.outcome, messages.encode_priorities(answer.scores)


async def _read(request: web.Request, cap: int, patience: float) -> memoryview:
    """The whole body, into one buffer of its announced size: joining chunks would hold a large one twice."""
    announced = request.content_length
    if announced is not None and announced > cap:
        raise TooLargeError(f"a body of {announced} bytes, more than {cap}")
    connection, body = request.protocol, request.content
    assert isinstance(connection, Connection)
    connection.expect(body)
    try:
        return await _fill(bytearray(announced or 0), body, cap, patience)
    except CutShortError as error:
        whole = "" if announced is None else f" of {announced}"
        sentence = f"a body cut short after {body.total_bytes}{whole} bytes"
        raise messages.BadRequestError(sentence) from error
    except TimeoutError as error:
        raise TooSlowError(f"a body that stopped coming after {body.total_bytes} bytes") from error


async def _fill(
    buffer: bytearray, body: aiohttp.StreamReader, cap: int, patience: float
) -> memoryview:
    filled = 0
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(patience) as limit:
        async for chunk in body.iter_any():
            end = filled + len(chunk)
            if end > cap:
                raise TooLargeError(f"a body of more than {cap} bytes")
            buffer[filled:end] = chunk
            filled = end
            limit.reschedule(loop.time() + patience)
    return memoryview(buffer)[:filled]


@web.middleware
async def _json_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answers in JSON also where there is no such path or method, as the scheduler's client expects."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        body = messages.encode_error(f"{request.method} {request.path}: {error.reason}")
        headers = {name: value for name, value in error.headers.items() if name == "Allow"}
        return web.Response(body=body, status=error.status, content_type=_JSON, headers=headers)
    except Exception:
        log.exception("a request failed", path=request.path)
        body = messages.encode_error("a defect of the evaluator: its log says more")
        return web.Response(body=body, status=500, content_type=_JSON)
    finally:
        if isinstance(request.protocol, Connection):
            request.protocol.pass_over(request.content)


async def serve(
    app: web.Application, host: str | None, port: int, *, tls: ssl.SSLContext | None = None
) -> tuple[web.AppRunner, int]:
    """Start an application; returns its runner (`cleanup()` ends it) and the port. Raises OSError."""
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=5)
    await runner.setup()
    site = Site(runner, host, port, ssl_context=tls)
    try:
        await site.start()
    except OSError:
        await runner.cleanup()
        raise
    address = runner.addresses[0]
    return runner, int(address[1])

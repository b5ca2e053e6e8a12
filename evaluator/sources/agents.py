"""Readings that node agents stream: one gRPC stream each, on which they are told what to report.

Whoever may report for a node can spoil that node's readings, and nothing else: one stream counts for a node, its reports
are for that node alone, and they are taken in at a bounded pace.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import grpc

from evaluator.sources.verifier import Refusal, Verifier
from evaluator.store import Store
from evaluator.subscription import Subscription, Subscriptions
from plimsoll import logs
from wire import codec, telemetry_pb2, telemetry_pb2_grpc

log = logs.get(__name__)

# A burst of thousands of connects (every agent after a restart of ours) is refused by gRPC's default bounds.
_OPTIONS = [
    ("grpc.server.max_pending_requests", 10_000),
    ("grpc.server.max_pending_requests_hard_limit", 20_000),
    ("grpc.max_receive_message_length", 1 << 20),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
]

_INTRODUCTION = 30.0
"""Seconds in which a stream has to say whose it is."""
_LONGEST = 3600.0
"""Seconds after which a stream has to begin anew, so that certificates and tokens are looked at again."""
_PACE = 0.01
"""Seconds between two reports of one node; an agent that sends more of them has to wait, nobody else has."""
_LONGEST_NAME = 253

Code = grpc.StatusCode
Context = grpc.aio.ServicerContext[telemetry_pb2.Report, telemetry_pb2.Subscription]


class Agents(telemetry_pb2_grpc.TelemetryServicer):
    """Takes in reports. `on_report` is told of each one whether it changed anything, `on_refusal` why one was refused."""

    def __init__(
        self,
        store: Store,
        subscriptions: Subscriptions,
        *,
        interval: float,
        on_report: Callable[[bool], None],
        on_refusal: Callable[[grpc.StatusCode], None] = lambda _code: None,
        verifier: Verifier | None = None,
        longest: float = _LONGEST,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._store = store
        self._subscriptions = subscriptions
        self._interval_ms = max(1, round(interval * 1000))
        self._on_report = on_report
        self._on_refusal = on_refusal
        self._verifier = verifier or Verifier()
        self._longest = longest
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 (jitter, not a secret)
        self._streams: dict[str, asyncio.Future[Refusal]] = {}
        self._server: grpc.aio.Server | None = None

    @property
    def connected(self) -> int:
        """How many nodes have a stream now."""
        return len(self._streams)

    async def start(
        self, address: str, *, credentials: grpc.ServerCredentials | None = None
    ) -> int:
        """Listen; returns the port. Raises OSError if the address cannot be had."""
        server = grpc.aio.server(options=_OPTIONS)
        telemetry_pb2_grpc.add_TelemetryServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        try:
            port = (
                server.add_insecure_port(address)
                if credentials is None
                else server.add_secure_port(address, credentials)
            )
        except RuntimeError as error:
            raise OSError(
                f"cannot listen for agents on {address}: in use, or no address of this machine"
            ) from error
        await server.start()
        self._server = server
        return port

    async def stop(self) -> None:
        """End all streams; agents connect again to whoever answers next."""
        if self._server is not None:
            await self._server.stop(grace=0)

    async def Stream(self, _requests: Any, context: Context) -> None:  # noqa: N802 (the service's name)
        """One agent, until it goes away, breaks the protocol, or another stream for its node begins."""
        first = await self._introduction(context)
        if first is None:
            return
        node = first.node_name
        refusal = _nameless(node) or await self._verifier.admit(node, context)
        if refusal is None:
            log.info("agent connected", node=node, version=first.agent_version, peer=context.peer())
            refusal = await self._follow(node, context)
            log.info("agent disconnected", node=node)
        if refusal is not None:
            await self._turn_away(node, refusal, context)

    @staticmethod
    async def _introduction(context: Context) -> telemetry_pb2.Report | None:
        """The first message; None if none comes."""
        first = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_INTRODUCTION):
                first = await context.read()
        return first if isinstance(first, telemetry_pb2.Report) else None

    async def _turn_away(self, node: str, refusal: Refusal, context: Context) -> None:
        log.warning(
            "agent turned away",
            node=node[:_LONGEST_NAME],
            peer=context.peer(),
            code=refusal.code.name,
            error=refusal.sentence,
        )
        self._on_refusal(refusal.code)
        await context.abort(refusal.code, refusal.sentence)

    async def _follow(self, node: str, context: Context) -> Refusal | None:
        """Talk to one agent until its stream is over; returns why, if there is a reason to tell it."""
        replaced = self._take_over(node)
        writing = asyncio.Lock()
        sent: dict[int, Subscription] = {}
        telling = asyncio.create_task(self._tell(context, sent, writing))
        telling.add_done_callback(_note_end)
        listening = asyncio.create_task(self._listen(node, context, sent))
        longest = self._longest * (1 - 0.2 * self._rng.random())
        try:
            either: set[asyncio.Future[Any]] = {replaced, listening}
            await asyncio.wait(either, timeout=longest, return_when=asyncio.FIRST_COMPLETED)
            async with (
                writing
            ):  # a stream cannot be ended while a message is on its way out: the agent would hang
                telling.cancel()
            if replaced.done():
                return replaced.result()
            return listening.result() if listening.done() else None
        finally:
            telling.cancel()
            listening.cancel()
            # Waited for: a read that is under way when the stream is ended would fail with nobody to tell.
            await asyncio.gather(listening, return_exceptions=True)
            if self._streams.get(node) is replaced:
                del self._streams[node]

    def _take_over(self, node: str) -> asyncio.Future[Refusal]:
        """The newest stream of a node counts: an agent that lost its old one may be back before that is noticed here.

        The future is set when a newer one begins.
        """
        before = self._streams.get(node)
        if before is not None and not before.done():
            before.set_result(
                Refusal(Code.ALREADY_EXISTS, f"another stream for node {node} has begun")
            )
        mine = self._streams[node] = asyncio.get_running_loop().create_future()
        return mine

    async def _tell(
        self, context: Context, sent: dict[int, Subscription], writing: asyncio.Lock
    ) -> None:
        generation = 0
        while True:
            wanted = await self._subscriptions.after(generation)
            generation = wanted.generation
            sent[generation] = wanted
            message = telemetry_pb2.Subscription(
                generation=generation, metrics=wanted.metrics, interval_ms=self._interval_ms
            )
            async with writing:
                await context.write(message)

    async def _listen(
        self, node: str, context: Context, sent: dict[int, Subscription]
    ) -> Refusal | None:
        """Take in reports until there are no more; returns why not, if the agent broke the protocol or its node is gone.

        A report refers to the list of its own generation, also while the next one is on its way to the agent.
        """
        answered = 0
        loop = asyncio.get_running_loop()
        while isinstance(report := await context.read(), telemetry_pb2.Report):
            next_one = loop.time() + _PACE
            if (refusal := self._verifier.missing(node)) is not None:
                return refusal
            try:
                delta = self._understood(report, node, sent, answered)
            except codec.MalformedReportError as error:
                return Refusal(Code.INVALID_ARGUMENT, str(error))
            answered = report.generation
            for old in [known for known in sent if known < answered]:
                del sent[old]
            version = self._store.version
            self._store.report(node, delta, self._clock())
            self._on_report(self._store.version != version)
            await asyncio.sleep(max(0.0, next_one - loop.time()))
        return None

    def _understood(
        self,
        report: telemetry_pb2.Report,
        node: str,
        sent: Mapping[int, Subscription],
        answered: int,
    ) -> codec.Delta:
        if report.node_name != node:
            raise codec.MalformedReportError(
                f"this stream is for node {node}, not {report.node_name or 'a nameless one'}"
            )
        if (subscription := sent.get(report.generation)) is None:
            raise codec.MalformedReportError(
                f"generation {report.generation} was never subscribed to"
            )
        # Changes make sense only beside what they change; a node that was forgotten has to begin anew.
        if not report.full and (report.generation != answered or not self._store.knows(node)):
            raise codec.MalformedReportError("a full report has to come first")
        return codec.decode(report, subscription.metrics)


def _nameless(node: str) -> Refusal | None:
    if not node:
        return Refusal(Code.INVALID_ARGUMENT, "a Report needs a node_name")
    if len(node) > _LONGEST_NAME:
        return Refusal(Code.INVALID_ARGUMENT, "a node_name is too long to be one")
    return None


def _note_end(telling: asyncio.Task[None]) -> None:
    """A write to an agent that is gone fails; reading from it ends the stream at the same time."""
    if not telling.cancelled() and (error := telling.exception()) is not None:
        log.debug("subscription not sent", error=str(error))

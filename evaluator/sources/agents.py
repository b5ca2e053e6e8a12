"""Readings that node agents stream: one gRPC stream each, on which they are told what to report."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import grpc

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

Context = grpc.aio.ServicerContext[telemetry_pb2.Report, telemetry_pb2.Subscription]


class Agents(telemetry_pb2_grpc.TelemetryServicer):
    """Takes in reports. `on_report` is told of each one whether it changed anything."""

    def __init__(
        self,
        store: Store,
        subscriptions: Subscriptions,
        *,
        interval: float,
        on_report: Callable[[bool], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._subscriptions = subscriptions
        self._interval_ms = max(1, round(interval * 1000))
        self._on_report = on_report
        self._clock = clock
        self._streams: dict[str, int] = {}
        self._server: grpc.aio.Server | None = None

    @property
    def connected(self) -> int:
        """How many nodes have a stream now."""
        return len(self._streams)

    async def start(self, address: str) -> int:
        """Listen; returns the port. Raises OSError if the address cannot be had."""
        server = grpc.aio.server(options=_OPTIONS)
        telemetry_pb2_grpc.add_TelemetryServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        try:
            port = server.add_insecure_port(address)
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
        """One agent, until it goes away or breaks the protocol."""
        first = await context.read()
        if not isinstance(first, telemetry_pb2.Report):
            return
        node = first.node_name
        if not node:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a Report needs a node_name")
        log.info("agent connected", node=node, version=first.agent_version, peer=context.peer())
        self._streams[node] = self._streams.get(node, 0) + 1
        writing = asyncio.Lock()
        sent: dict[int, Subscription] = {}
        telling = asyncio.create_task(self._tell(context, sent, writing))
        telling.add_done_callback(_note_end)
        try:
            refusal = await self._listen(node, context, sent)
            async with (
                writing
            ):  # a stream cannot be ended while a message is on its way out: the agent would hang
                telling.cancel()
        finally:
            telling.cancel()
            self._streams[node] -= 1
            if not self._streams[node]:
                del self._streams[node]
            log.info("agent disconnected", node=node)
        if refusal:
            log.warning("agent turned away", node=node, error=refusal)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, refusal)

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

    async def _listen(self, node: str, context: Context, sent: dict[int, Subscription]) -> str:
        """Take in reports until there are no more; returns why not, if the agent broke the protocol.

        A report refers to the list of its own generation, also while the next one is on its way to the agent.
        """
        answered = 0
        while isinstance(report := await context.read(), telemetry_pb2.Report):
            try:
                delta = self._understood(report, node, sent, answered)
            except codec.MalformedReportError as error:
                return str(error)
            answered = report.generation
            for old in [known for known in sent if known < answered]:
                del sent[old]
            version = self._store.version
            self._store.report(node, delta, self._clock())
            self._on_report(self._store.version != version)
        return ""

    def _understood(
        self,
        report: telemetry_pb2.Report,
        node: str,
        sent: Mapping[int, Subscription],
        answered: int,
    ) -> codec.Delta:
        if report.node_name != node:
            raise codec.MalformedReportError(
                f"this stream is for node {node}, not {report.node_name}"
            )
        if (subscription := sent.get(report.generation)) is None:
            raise codec.MalformedReportError(
                f"generation {report.generation} was never subscribed to"
            )
        # Changes make sense only beside what they change; a node that was forgotten has to begin anew.
        if not report.full and (report.generation != answered or not self._store.knows(node)):
            raise codec.MalformedReportError("a full report has to come first")
        return codec.decode(report, subscription.metrics)


def _note_end(telling: asyncio.Task[None]) -> None:
    """A write to an agent that is gone fails; reading from it ends the stream at the same time."""
    if not telling.cancelled() and (error := telling.exception()) is not None:
        log.debug("subscription not sent", error=str(error))

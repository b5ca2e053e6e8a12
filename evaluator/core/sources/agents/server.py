"""gRPC server for agents: each opens one stream, receives subscriptions and sends reports.

A client that may report for a node can affect only that node's readings and failing rules, the names suggested for metrics that
no node has, and which metrics match `patterns`: one stream per node is current, its reports are for this node, and they are rate-limited.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from evaluator.core.isolation import Part, uncounted
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.signals import (
    AgentRefused,
    AgentReported,
    CausesReported,
    FailingRulesReported,
    MatchingNamesReported,
    ProblemsReported,
    Publish,
    SimilarNamesReported,
    unheard,
)
from evaluator.core.sources.agents.authn import Authorizer, StreamRejection, is_node_name
from evaluator.core.sources.agents.calls import Call, CallEndedError, CallPort, Code, ServerOptions
from evaluator.core.sources.agents.limits import AgentLimits, share_of_descriptors
from evaluator.core.sources.agents.stream import (
    AgentStream,
    ReportHandler,
    RequestedMetrics,
    StreamRegistry,
    TooManyError,
    parse,
)
from plimsoll import logs
from plimsoll.logs.ratelimited import RateLimitedLogger
from plimsoll.process import garbage
from wire import telemetry_pb2
from wire.codec import Delta, MalformedReportError
from wire.failing_rules import NONE

log = logs.get(__name__)

_BATCH = 16
"""Agents notified between two yields to the event loop."""

_OTHER_DESCRIPTORS = 1000
"""File descriptors reserved for the rest of the process by default."""


class ReportSink(Protocol):
    """Where reports go: the store of readings, or a recorder."""

    @property
    def version(self) -> int:
        """Increments when a report changes anything."""
        ...

    def knows(self, node: str) -> bool:
        """Whether deltas of a node can be applied; otherwise it must send a full report."""
        ...

    def report(self, node: str, report: Delta, at: float) -> None:
        """Take a report of a node, received at `at` (seconds of the server's clock)."""
        ...


class AgentServer:
    """Receives reports and publishes what they changed. `patterns`: of names of metrics that agents report.

    `acknowledged` returns the times (Unix seconds) at which persons acknowledged problems of a node, by condition type.
    """

    def __init__(
        self,
        store: ReportSink,
        subscriptions: Subscriptions,
        *,
        interval: float,
        publish: Publish = unheard,
        patterns: Sequence[str] = (),
        acknowledged: Callable[[str], Mapping[str, float]] = lambda _node: {},
        authorizer: Authorizer | None = None,
        limits: AgentLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        part: Part | None = None,
    ) -> None:
        self._part = part or uncounted("agents")
        self._store = store
        self._subscriptions = subscriptions
        self._interval_ms = max(1, round(interval * 1000))
        self._publish = publish
        self._patterns = patterns
        self._acknowledged = acknowledged
        self._authorizer = authorizer or Authorizer()
        self._limits = limits or AgentLimits()
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 (jitter, not a secret)
        self._registry: StreamRegistry[AgentStream] = StreamRegistry(self._limits)
        self._log = RateLimitedLogger(log)
        self._handler = ReportHandler(
            knows=store.knows, missing=self._authorizer.missing, store_report=self._store_report
        )
        self._requested = self._serialized()
        self._port: CallPort | None = None
        self._announcer: asyncio.Task[None] | None = None

    @property
    def connected(self) -> int:
        """The number of nodes with a stream."""
        return len(self._registry)

    async def start(self, port: CallPort, *, reserved: int = _OTHER_DESCRIPTORS) -> int:
        """Listen and return the port's number. Raises OSError if the address cannot be bound.

        Connections leave at least `reserved` file descriptors for other ports and files.
        """
        connections = share_of_descriptors(self._limits.streams, reserved=reserved)
        options = ServerOptions(
            tuple(self._limits.channel_options(connections)),
            self._limits.streams,
            self._limits.bounds(connections),
        )
        bound = await port.open(self._serve, options)
        self._port = port
        self._announcer = asyncio.create_task(self._announce())
        return bound

    async def stop(self) -> None:
        """End all streams; agents reconnect."""
        if self._announcer is not None:
            self._announcer.cancel()
        if self._port is not None:
            await self._port.close()

    async def _serve(self, call: Call) -> None:
        """Serve one agent, and count its end."""
        try:
            await self._serve_agent(call)
        finally:
            garbage.OF_THIS_PROCESS.ended()

    async def _serve_agent(self, call: Call) -> None:
        """Serve one agent until it disconnects, violates the protocol or is replaced by another stream of its node."""
        try:
            first = await self._introduction(call)
            if first is None:
                return
            node = first.node_name
            refusal = _name_error(node) or await self._authorizer.admit(node, call.caller)
        except MalformedReportError as error:
            node, refusal = "", StreamRejection(Code.INVALID_ARGUMENT, str(error))
        if refusal is None:
            refusal = await self._isolated(node, call)
        if refusal is not None:
            self._log.log(
                "agent rejected",
                node=node,
                peer=call.caller.peer,
                code=refusal.code,
                error=refusal.sentence,
            )
            self._publish(AgentRefused(refusal.code))
            await call.abort(refusal.code, refusal.sentence)

    async def _isolated(self, node: str, call: Call) -> StreamRejection | None:
        """Serve an authorized stream; one of which anything raises ends, and begins anew with a full report."""
        try:
            refusal = await self._serve_stream(node, call)
        except CallEndedError:
            raise
        except Exception:  # noqa: BLE001 (isolated)
            self._part.failed(node)
            return StreamRejection(Code.INTERNAL, "an internal error: the evaluator's log has it")
        return refusal

    async def _introduction(self, call: Call) -> telemetry_pb2.Report | None:
        """Return the first message, or None if the timeout expires. Raises MalformedReportError."""
        message = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.introduction):
                message = await call.read()
        return None if message is None else parse(message)

    async def _serve_stream(self, node: str, call: Call) -> StreamRejection | None:
        """Serve an authorized stream until it ends; return the rejection to send, or None."""
        stream = AgentStream(node, call, self._limits, self._rng)
        try:
            replaced = self._registry.enter(node, stream, self._clock())
        except TooManyError as error:
            return StreamRejection(Code.RESOURCE_EXHAUSTED, str(error))
        log.debug("agent connected", node=node, peer=call.caller.peer)
        try:
            if replaced is not None:
                replaced.end(
                    StreamRejection(
                        Code.ALREADY_EXISTS, f"another stream for node {node} has begun"
                    )
                )
            stream.send(self._requested_of(node))
            refusal = await stream.run(self._handler)
            await stream.flush()
            return refusal
        finally:
            if self._registry.leave(node, stream):
                self._publish(FailingRulesReported(node, NONE))
            log.debug("agent disconnected", node=node)

    def _store_report(self, node: str, delta: Delta) -> None:
        version = self._store.version
        self._store.report(node, delta, self._clock())
        self._publish(AgentReported(node, self._store.version != version))
        if delta.similar:
            self._publish(SimilarNamesReported(delta.similar))
        if delta.matching:
            self._publish(MatchingNamesReported(delta.matching))
        if delta.failing is not None:
            self._publish(FailingRulesReported(node, delta.failing))
        if delta.problems is not None:
            self._publish(ProblemsReported(node, delta.problems))
        if delta.causes is not None:
            self._publish(CausesReported(node, delta.causes))
        self._part.succeeded(node)

    def acknowledged(self, node: str) -> None:
        """Send the acknowledgements of a node to its agent, because they have changed."""
        for stream in self._registry.current:
            if stream.node == node:
                stream.send(self._requested_of(node))

    def _requested_of(self, node: str) -> RequestedMetrics:
        """Return the subscription, with the acknowledgements of a node: serialized messages are merged by appending them."""
        times, requested = self._acknowledged(node), self._requested
        if not times:
            return requested
        entries = [telemetry_pb2.Acknowledgement(type=kind, at=at) for kind, at in times.items()]
        more = telemetry_pb2.Subscription(acknowledged=entries).SerializeToString()
        return replace(requested, message=requested.message + more)

    async def _announce(self) -> None:
        """Send each new subscription to all agents, in batches."""
        while True:
            await self._subscriptions.after(self._requested.generation)
            self._requested = self._serialized()
            for number, stream in enumerate(self._registry.current, start=1):
                with self._part.isolated(f"subscription of {stream.node}"):
                    stream.send(self._requested_of(stream.node))
                if number % _BATCH == 0:
                    await asyncio.sleep(0)

    def _serialized(self) -> RequestedMetrics:
        subscription = self._subscriptions.current
        message = telemetry_pb2.Subscription(
            generation=subscription.generation,
            metrics=subscription.metrics,
            interval_ms=self._interval_ms,
            patterns=self._patterns,
        )
        return RequestedMetrics(
            subscription.generation, subscription.metrics, message.SerializeToString()
        )


def _name_error(node: str) -> StreamRejection | None:
    if not node:
        return StreamRejection(Code.INVALID_ARGUMENT, "a Report needs a node_name")
    if not is_node_name(node):
        return StreamRejection(
            Code.INVALID_ARGUMENT,
            "a node_name is a lower-case DNS subdomain of at most 253 characters",
        )
    return None

"""Streams metrics that policies use to the evaluator: immediately when a file or recorded value changed, else at the evaluator's interval.

The stream is reopened after every loss with jittered back-off, and later if the evaluator rejected it. Every report follows
a scrape: an agent that cannot read sends nothing, and its readings become stale at the evaluator.
"""

import asyncio
import contextlib
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import grpc

from agent.rule_results import RuleResults
from agent.scrape.runner import CollectorRunner
from agent.stream.additions import ChangedFailingRules, ChangedProblems, MatchingNames, SimilarNames
from agent.stream.credentials import Credentials, CredentialsError, Metadata
from agent.stream.snapshot import SnapshotReader
from plimsoll import VERSION, logs
from plimsoll.backoff import Backoff
from plimsoll.wakeup import WakeUp
from wire import codec, telemetry_pb2, telemetry_pb2_grpc

log = logs.get(__name__)

_OPTIONS = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 0),
    # gRPC would send a ping with each subscription to estimate bandwidth, which these few bytes do not need.
    ("grpc.http2.bdp_probe", 0),
]
_DEFAULT_INTERVAL = 5.0
LONGEST_BACKOFF = 15.0
"""Seconds between two attempts after a loss, at most."""
_STEADY = 10.0
"""Seconds a stream must last for the back-off to be reset."""

# The identity of this agent rarely changes within seconds, but its node may be registered again within seconds after it
# was deleted, and has no readings until its agent is back.
_REFUSALS = frozenset(
    {
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)

Stream = grpc.aio.StreamStreamCall[telemetry_pb2.Report, telemetry_pb2.Subscription]


@dataclass(frozen=True, slots=True)
class Target:
    """Address of the evaluator and name of this node. Without credentials: plain text."""

    address: str
    node: str
    credentials: Credentials | None = None


@dataclass(frozen=True, slots=True)
class _Loss:
    """How a stream ended: what to log, and whether the evaluator rejected it."""

    why: str
    refused: bool = False
    planned: bool = False


class StreamClient:
    """Keeps one stream to the evaluator. `on_state` is called when it comes up and when it is lost."""

    def __init__(
        self,
        target: Target,
        collector_runner: CollectorRunner,
        *,
        recorded: RuleResults | None = None,
        on_state: Callable[[bool], None] = lambda _up: None,
        backoff: Backoff | None = None,
        refused: Backoff | None = None,
    ) -> None:
        self._target = target
        self._readings = SnapshotReader(collector_runner, recorded)
        self._problems = ChangedProblems(self._readings.problems)
        self._on_state = on_state
        rng = random.Random()  # noqa: S311 (jitter, not a secret)
        self._backoff = backoff or Backoff(rng.random, first=0.25, longest=LONGEST_BACKOFF)
        self._refused = refused or Backoff(rng.random, first=5.0, longest=120.0)
        self._up_since = math.inf

    async def run(self) -> None:
        """Stream until cancelled."""
        while True:
            self._up_since = math.inf
            loss = await self._attempt()
            self._on_state(False)
            delay = self._delay(loss)
            level = log.info if loss.planned else log.warning
            level(
                "the evaluator rejected this agent, trying again"
                if loss.refused
                else "no stream to the evaluator, trying again",
                address=self._target.address,
                error=loss.why,
                delay=round(delay, 2),
            )
            await asyncio.sleep(delay)

    async def _attempt(self) -> _Loss:
        """Open a stream and serve it until it ends."""
        try:
            channel, metadata = await self._channel()
            async with channel:
                stub = telemetry_pb2_grpc.TelemetryStub(channel)  # type: ignore[no-untyped-call]
                await self._session(stub.Stream(metadata=metadata))
        except grpc.aio.AioRpcError as error:
            return _Loss(error.details() or error.code().name, refused=error.code() in _REFUSALS)
        except asyncio.InvalidStateError:
            # The stream was lost just before a report was written.
            return _Loss("the stream was lost")
        except CredentialsError as error:
            return _Loss(str(error))
        return _Loss("the evaluator ended the stream", planned=True)

    async def _channel(self) -> tuple[grpc.aio.Channel, Metadata]:
        address, credentials = self._target.address, self._target.credentials
        if credentials is None:
            return grpc.aio.insecure_channel(address, _OPTIONS), ()
        secrets, metadata = await asyncio.to_thread(credentials.load)
        options = list[tuple[str, str | int]](_OPTIONS)
        if credentials.server_name:
            options.append(("grpc.ssl_target_name_override", credentials.server_name))
        return grpc.aio.secure_channel(address, secrets, options), metadata

    def _delay(self, loss: _Loss) -> float:
        """Return the back-off. A stream that ended at once does not reset it, so that an evaluator that rejects us is not overloaded."""
        if asyncio.get_running_loop().time() - self._up_since > _STEADY:
            self._backoff.reset()
            self._refused.reset()
        return (self._refused if loss.refused else self._backoff).next()

    async def _session(self, stream: Stream) -> None:
        """Serve one stream, from the hello until it is lost."""
        await stream.write(telemetry_pb2.Report(node_name=self._target.node, agent_version=VERSION))
        subscriptions = _RequestedMetrics()
        listening = asyncio.create_task(self._listen(stream, subscriptions))
        reporting = asyncio.create_task(self._report(stream, subscriptions))
        try:
            await asyncio.wait([listening, reporting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (listening, reporting):
                task.cancel()
            self._readings.close()
            results = await asyncio.gather(listening, reporting, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _listen(self, stream: Stream, subscriptions: "_RequestedMetrics") -> None:
        async for subscription in stream:
            log.info(
                "subscription received",
                generation=subscription.generation,
                metrics=len(subscription.metrics),
                interval_ms=subscription.interval_ms,
            )
            self._up_since = min(self._up_since, asyncio.get_running_loop().time())
            self._on_state(True)
            subscriptions.put(subscription)

    async def _report(self, stream: Stream, subscriptions: "_RequestedMetrics") -> None:
        due = WakeUp()
        loop = asyncio.get_running_loop()
        subscriptions.on_new = due.set
        self._readings.open(partial(_signal, loop, due))
        subscription, last = await subscriptions.get(), None
        self._readings.want(subscription.metrics)
        await self._acknowledge(subscription)
        similar = SimilarNames(self._readings.similar, due)
        matching = MatchingNames(self._readings.matching, due)
        failing = ChangedFailingRules(self._readings.failing)
        while True:
            # Before reading: a change during it causes another report.
            due.clear()
            if subscriptions.is_new:
                subscription, last = await subscriptions.get(), None
                self._readings.want(subscription.metrics)
                await self._acknowledge(subscription)
            metrics = list(subscription.metrics)
            snapshot = await asyncio.to_thread(self._readings.read, metrics)
            report = telemetry_pb2.Report(
                node_name=self._target.node, generation=subscription.generation
            )
            codec.encode(report, metrics, snapshot, last)
            if last is None:
                similar.find(metrics, snapshot)
            elif names := similar.take():
                codec.add_similar(report, metrics, names)
            else:
                codec.add_matching(report, matching.take())
            matching.find(subscription.patterns, loop.time())
            if (rules := failing.take(loop.time(), full=last is None)) is not None:
                codec.add_failing_rules(report, rules)
            if (found := self._problems.take(loop.time(), full=last is None)) is not None:
                codec.add_problems(report, found)
            await stream.write(report)
            last = snapshot
            await due.wait(subscription.interval_ms / 1000 or _DEFAULT_INTERVAL)

    async def _acknowledge(self, subscription: telemetry_pb2.Subscription) -> None:
        if times := {entry.type: entry.at for entry in subscription.acknowledged}:
            await asyncio.to_thread(self._readings.acknowledge, times)


def _signal(loop: asyncio.AbstractEventLoop, due: WakeUp) -> None:
    with contextlib.suppress(RuntimeError):  # the agent has stopped
        loop.call_soon_threadsafe(due.set)


class _RequestedMetrics:
    """The evaluator's latest subscription, and whether it was applied."""

    def __init__(self) -> None:
        self._latest: telemetry_pb2.Subscription | None = None
        self._arrived = asyncio.Event()
        self.on_new: Callable[[], None] = lambda: None

    @property
    def is_new(self) -> bool:
        return self._arrived.is_set()

    def put(self, subscription: telemetry_pb2.Subscription) -> None:
        self._latest = subscription
        self._arrived.set()
        self.on_new()

    async def get(self) -> telemetry_pb2.Subscription:
        await self._arrived.wait()
        self._arrived.clear()
        assert self._latest is not None
        return self._latest

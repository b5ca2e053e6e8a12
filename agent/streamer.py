"""Streams to the evaluator what policies name: at once when a file changed, else at the pace the evaluator asks for.

The stream is opened again after every loss, with jittered back-off. A report is only ever sent after a round of reading:
an agent that cannot read says nothing, and its readings grow stale where they are kept.
"""

import asyncio
import contextlib
import math
import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import grpc

from agent.rounds import Rounds
from agent.selection import select
from plimsoll import VERSION, logs
from plimsoll.backoff import Backoff
from wire import codec, telemetry_pb2, telemetry_pb2_grpc

log = logs.get(__name__)

_OPTIONS = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 0),
]
_DEFAULT_INTERVAL = 5.0
_STEADY = 10.0
"""Seconds that a stream has to last before its loss is met with the shortest delay again."""

Stream = grpc.aio.StreamStreamCall[telemetry_pb2.Report, telemetry_pb2.Subscription]


@dataclass(frozen=True, slots=True)
class Target:
    """Whom to stream to, as which node, and how often (seconds) to look for changed files."""

    address: str
    node: str
    poll_interval: float = 0.1


class Streamer:
    """One stream to the evaluator, for ever. `on_state` hears when it is up and when it is lost."""

    def __init__(
        self,
        target: Target,
        rounds: Rounds,
        *,
        on_state: Callable[[bool], None] = lambda _up: None,
        backoff: Backoff | None = None,
    ) -> None:
        self._target = target
        self._rounds = rounds
        self._on_state = on_state
        self._backoff = backoff or Backoff(random.Random().random, first=0.25, longest=15.0)  # noqa: S311
        self._up_since = math.inf

    async def run(self) -> None:
        """Stream until cancelled."""
        while True:
            self._up_since = math.inf
            try:
                async with grpc.aio.insecure_channel(self._target.address, _OPTIONS) as channel:
                    stub = telemetry_pb2_grpc.TelemetryStub(channel)  # type: ignore[no-untyped-call]
                    await self._session(stub.Stream())
                why = "the evaluator ended the stream"
            except grpc.aio.AioRpcError as error:
                why = error.details() or error.code().name
            except asyncio.InvalidStateError:
                # A report was to be written when the stream had just been lost.
                why = "the stream was lost"
            self._on_state(False)
            # A stream that broke at once is no success: an evaluator that turns us away must not be hammered.
            if asyncio.get_running_loop().time() - self._up_since > _STEADY:
                self._backoff.reset()
            delay = self._backoff.next()
            log.warning(
                "no stream to the evaluator, trying again",
                address=self._target.address,
                error=why,
                delay=round(delay, 2),
            )
            await asyncio.sleep(delay)

    async def _session(self, stream: Stream) -> None:
        """One stream, from the introduction until it is lost."""
        await stream.write(telemetry_pb2.Report(node_name=self._target.node, agent_version=VERSION))
        wanted = _Wanted()
        listening = asyncio.create_task(self._listen(stream, wanted))
        reporting = asyncio.create_task(self._report(stream, wanted))
        try:
            await asyncio.wait([listening, reporting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (listening, reporting):
                task.cancel()
            results = await asyncio.gather(listening, reporting, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _listen(self, stream: Stream, wanted: "_Wanted") -> None:
        async for subscription in stream:
            log.info(
                "subscription",
                generation=subscription.generation,
                metrics=len(subscription.metrics),
                interval_ms=subscription.interval_ms,
            )
            self._up_since = min(self._up_since, asyncio.get_running_loop().time())
            self._on_state(True)
            wanted.put(subscription)

    async def _report(self, stream: Stream, wanted: "_Wanted") -> None:
        subscription = await wanted.get()
        last: codec.Snapshot | None = None
        while True:
            metrics = list(subscription.metrics)
            # Taken before the reading: a file that changes while it is read has another one afterwards.
            seen = await asyncio.to_thread(self._rounds.fingerprint)
            found = await asyncio.to_thread(self._read, metrics)
            report = telemetry_pb2.Report(
                node_name=self._target.node, generation=subscription.generation
            )
            await stream.write(codec.encode(report, metrics, found, last))
            last = found
            interval = subscription.interval_ms / 1000 or _DEFAULT_INTERVAL
            await self._until_due(wanted, seen, interval)
            if wanted.is_new:
                subscription, last = await wanted.get(), None

    def _read(self, metrics: Sequence[str]) -> codec.Snapshot:
        """Run just the collectors that can know these metrics. Blocking."""
        found = self._rounds.run(self._rounds.serving(metrics))
        unread = (
            {m for m in metrics if found.failed & self._rounds.serving([m])} if found.failed else ()
        )
        return select(found.families, metrics, unread)

    async def _until_due(self, wanted: "_Wanted", seen: Hashable, interval: float) -> None:
        """Return when the interval is over, a source has changed, or the evaluator wants something else."""
        loop = asyncio.get_running_loop()
        due = loop.time() + interval
        while (left := due - loop.time()) > 0:
            if await wanted.within(min(self._target.poll_interval, left)):
                return
            if await asyncio.to_thread(self._rounds.fingerprint) != seen:
                return


class _Wanted:
    """The evaluator's latest subscription, and whether it was taken up yet."""

    def __init__(self) -> None:
        self._latest: telemetry_pb2.Subscription | None = None
        self._arrived = asyncio.Event()

    @property
    def is_new(self) -> bool:
        return self._arrived.is_set()

    def put(self, subscription: telemetry_pb2.Subscription) -> None:
        self._latest = subscription
        self._arrived.set()

    async def get(self) -> telemetry_pb2.Subscription:
        await self._arrived.wait()
        self._arrived.clear()
        assert self._latest is not None
        return self._latest

    async def within(self, seconds: float) -> bool:
        """Wait so long for another subscription; whether it came."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._arrived.wait(), seconds)
        return self._arrived.is_set()

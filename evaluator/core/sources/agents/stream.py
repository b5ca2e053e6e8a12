"""One agent's stream and its protocol, and the registry of all streams.

A stream reads reports at a limited rate, sends subscriptions, and ends with a reason.

An idle stream is one coroutine waiting for a message; there are thousands of them.
"""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import DecodeError

from evaluator.core.sources.agents.authn import StreamRejection
from evaluator.core.sources.agents.calls import Call, CallEndedError, Code
from evaluator.core.sources.agents.limits import AgentLimits
from plimsoll import logs
from plimsoll.ratelimit import TokenBucket
from wire import codec, telemetry_pb2
from wire.codec import Delta, MalformedReportError

_MOST_SUBSCRIPTIONS = 16
"""Subscriptions kept for a slow agent; reports for older ones are rejected."""


def parse(message: bytes) -> telemetry_pb2.Report:
    """Return a decoded Report. Raises MalformedReportError."""
    try:
        return telemetry_pb2.Report.FromString(message)
    except DecodeError as error:
        raise MalformedReportError("the message is not a Report") from error


class StreamProtocol:
    """The protocol state of one stream, which is for one node."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._subscriptions: dict[int, tuple[str, ...]] = {}
        self._answered = 0

    def subscribe(self, generation: int, metrics: tuple[str, ...]) -> None:
        """Record a subscription that is being sent. Generations increase."""
        self._subscriptions[generation] = metrics
        if len(self._subscriptions) > _MOST_SUBSCRIPTIONS:
            del self._subscriptions[next(iter(self._subscriptions))]

    def decode(self, report: telemetry_pb2.Report, *, known: bool) -> Delta:
        """Return the changes in a report. `known`: whether the store has readings of the node. Raises MalformedReportError.

        A report refers to the subscription of its own generation, also while the next one is being sent.
        """
        if report.node_name != self.node:
            other = report.node_name[:300] or "one without a name"
            raise MalformedReportError(f"this stream is for node {self.node}, not {other}")
        if (metrics := self._subscriptions.get(report.generation)) is None:
            raise MalformedReportError(f"generation {report.generation} was never subscribed to")
        # A delta needs a previous full report; a node that was dropped from the store must send one again.
        if not report.full and (report.generation != self._answered or not known):
            raise MalformedReportError("a full report is required first")
        delta = codec.decode(report, metrics)
        if report.generation != self._answered:
            self._answered = report.generation
            self._subscriptions = {
                g: names for g, names in self._subscriptions.items() if g >= report.generation
            }
        return delta


log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class RequestedMetrics:
    """A subscription, serialized once for all agents."""

    generation: int
    metrics: tuple[str, ...]
    message: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportHandler:
    """Callbacks for reports: whether the node is known, whether it may still report, and the report's changes."""

    knows: Callable[[str], bool]
    missing: Callable[[str], StreamRejection | None]
    store_report: Callable[[str, Delta], None]


class AgentStream:
    """A stream after its first message. Must be created in the task that awaits `run()`."""

    def __init__(self, node: str, call: Call, limits: AgentLimits, rng: random.Random) -> None:
        self.node = node
        self._call = call
        self._protocol = StreamProtocol(node)
        self._age = limits.age * (1 - 0.2 * rng.random())
        self._rate = TokenBucket(limits.reports, limits.burst)
        self._task = asyncio.current_task()
        self._ended: StreamRejection | None = None
        self._next: RequestedMetrics | None = None
        self._sending: asyncio.Task[None] | None = None

    def send(self, requested: RequestedMetrics) -> None:
        """Send a subscription; if the agent is slow to read, only the latest one is kept."""
        self._next = requested
        if self._sending is None and self._ended is None:
            self._sending = asyncio.create_task(self._send())

    def end(self, refusal: StreamRejection) -> None:
        """Make `run()` return this rejection soon."""
        if self._ended is None and self._task is not None:
            self._ended = refusal
            self._task.cancel()

    async def run(self, handler: ReportHandler) -> StreamRejection | None:
        """Read reports until the stream ends; return the rejection to send, or None."""
        try:
            async with asyncio.timeout(self._age):
                return await self._read_reports(handler)
        except TimeoutError:
            return None  # the agent reconnects
        except asyncio.CancelledError:
            if self._ended is None or self._task is None or self._task.uncancel() > 0:
                raise  # the agent went away
            return self._ended
        finally:
            self._task = None

    async def flush(self) -> None:
        """Wait for pending writes: ending the stream before would leave the agent hanging."""
        self._next = None
        if self._sending is not None:
            await asyncio.wait([self._sending])

    async def _read_reports(self, handler: ReportHandler) -> StreamRejection | None:
        loop = asyncio.get_running_loop()
        while (message := await self._call.read()) is not None:
            if (refusal := handler.missing(self.node)) is not None:
                return refusal
            try:
                delta = self._protocol.decode(parse(message), known=handler.knows(self.node))
            except MalformedReportError as error:
                return StreamRejection(Code.INVALID_ARGUMENT, str(error))
            handler.store_report(self.node, delta)
            if (wait := self._rate.take(loop.time())) > 0:
                await asyncio.sleep(wait)
        return None

    async def _send(self) -> None:
        try:
            while (requested := self._next) is not None:
                self._next = None
                self._protocol.subscribe(requested.generation, requested.metrics)
                await self._call.write(requested.message)
        except CallEndedError as error:
            # If the agent is gone, reading ends the stream at the same time.
            log.debug("subscription not sent", node=self.node, error=str(error))
        finally:
            self._sending = None


T = TypeVar("T")

_REMEMBERED = 20_000
"""Nodes with a rate limiter; bounded, so that a flood of invented names does not fill memory."""


class TooManyError(Exception):
    """A node has too many streams, or starts them too often; the message is for both ends."""


class StreamRegistry(Generic[T]):
    """Streams by node. The newest is current: an agent may reconnect before its lost stream times out here.

    Two agents with one node name replace each other, at most at the rate that `pause` allows.
    """

    def __init__(self, limits: AgentLimits, *, remembered: int = _REMEMBERED) -> None:
        self._limits = limits
        self._remembered = remembered
        self._current: dict[str, T] = {}
        self._open: dict[str, int] = {}
        self._beginnings: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        """The number of nodes with a stream."""
        return len(self._current)

    @property
    def current(self) -> tuple[T, ...]:
        """The current streams."""
        return tuple(self._current.values())

    def enter(self, node: str, stream: T, now: float) -> T | None:
        """Add a stream; return the one it replaces, or None. Raises TooManyError."""
        if self._open.get(node, 0) >= self._limits.streams_per_node:
            raise TooManyError(
                f"node {node} already has {self._limits.streams_per_node} open streams"
            )
        if not self._bucket(node).take_now(now):
            raise TooManyError(f"streams of node {node} are opened too often")
        self._open[node] = self._open.get(node, 0) + 1
        before, self._current[node] = self._current.get(node), stream
        return before

    def leave(self, node: str, stream: T) -> bool:
        """Remove a stream; returns whether it was the current one of its node."""
        self._open[node] -= 1
        if not self._open[node]:
            del self._open[node]
        current = self._current.get(node) is stream
        if current:
            del self._current[node]
        return current

    def _bucket(self, node: str) -> TokenBucket:
        bucket = self._beginnings.get(node)
        if bucket is None:
            bucket = TokenBucket(1 / self._limits.pause, self._limits.beginnings)
            self._beginnings[node] = bucket
        self._beginnings.move_to_end(node)
        if len(self._beginnings) > self._remembered:
            self._beginnings.popitem(last=False)
        return bucket

"""One agent's stream: reads reports at a limited rate, sends subscriptions, and ends with a reason.

An idle stream is one coroutine waiting for a message; there are thousands of them.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

import grpc

from evaluator.core.sources.agents.authn import StreamRejection
from evaluator.core.sources.agents.limits import AgentLimits
from evaluator.core.sources.agents.protocol import StreamProtocol, parse
from plimsoll import logs
from plimsoll.ratelimit import TokenBucket
from wire.codec import Delta, MalformedReportError

log = logs.get(__name__)

Context = grpc.aio.ServicerContext[bytes, bytes]
Code = grpc.StatusCode


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

    def __init__(
        self, node: str, context: Context, limits: AgentLimits, rng: random.Random
    ) -> None:
        self.node = node
        self._context = context
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
        while isinstance(message := await self._context.read(), bytes):
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
                await self._context.write(requested.message)
        except (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError) as error:
            # If the agent is gone, reading ends the stream at the same time.
            log.debug("subscription not sent", node=self.node, error=str(error))
        finally:
            self._sending = None

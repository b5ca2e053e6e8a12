"""One agent's stream: reads its reports at a bounded pace, tells it what to report, and ends where there is a reason.

At rest a stream is one coroutine that waits for a message; there are thousands of them.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

import grpc

from evaluator.sources.agents.authn import StreamRejection
from evaluator.sources.agents.limits import AgentLimits
from evaluator.sources.agents.protocol import StreamProtocol, parse
from plimsoll import logs
from plimsoll.ratelimit import TokenBucket
from wire.codec import Delta, MalformedReportError

log = logs.get(__name__)

Context = grpc.aio.ServicerContext[bytes, bytes]
Code = grpc.StatusCode


@dataclass(frozen=True, slots=True)
class RequestedMetrics:
    """What agents are asked for, written once for all of them."""

    generation: int
    metrics: tuple[str, ...]
    message: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportHandler:
    """Who hears of reports: whether a node is known already, why it may report no more, and what it said."""

    knows: Callable[[str], bool]
    missing: Callable[[str], StreamRejection | None]
    take: Callable[[str, Delta], None]


class AgentStream:
    """A stream whose agent has introduced itself. Made in the task that then awaits `run()`."""

    def __init__(
        self, node: str, context: Context, limits: AgentLimits, rng: random.Random
    ) -> None:
        self.node = node
        self._context = context
        self._protocol = StreamProtocol(node)
        self._age = limits.age * (1 - 0.2 * rng.random())
        self._pace = TokenBucket(limits.reports, limits.burst)
        self._task = asyncio.current_task()
        self._ended: StreamRejection | None = None
        self._next: RequestedMetrics | None = None
        self._telling: asyncio.Task[None] | None = None

    def tell(self, asked: RequestedMetrics) -> None:
        """Ask the agent for this; while it does not read what it was told before, the latest replaces what waits."""
        self._next = asked
        if self._telling is None and self._ended is None:
            self._telling = asyncio.create_task(self._tell())

    def end(self, refusal: StreamRejection) -> None:
        """Let `run()` return that soon."""
        if self._ended is None and self._task is not None:
            self._ended = refusal
            self._task.cancel()

    async def run(self, handler: ReportHandler) -> StreamRejection | None:
        """Take in reports until there are no more; returns why, if there is a reason to tell the agent."""
        try:
            async with asyncio.timeout(self._age):
                return await self._listen(handler)
        except TimeoutError:
            return None  # it begins anew
        except asyncio.CancelledError:
            if self._ended is None or self._task is None or self._task.uncancel() > 0:
                raise  # the agent went away
            return self._ended
        finally:
            self._task = None

    async def settle(self) -> None:
        """Wait until nothing is on its way out: a stream that is ended before that would leave its agent hanging."""
        self._next = None
        if self._telling is not None:
            await asyncio.wait([self._telling])

    async def _listen(self, handler: ReportHandler) -> StreamRejection | None:
        loop = asyncio.get_running_loop()
        while isinstance(message := await self._context.read(), bytes):
            if (refusal := handler.missing(self.node)) is not None:
                return refusal
            try:
                delta = self._protocol.decode(parse(message), known=handler.knows(self.node))
            except MalformedReportError as error:
                return StreamRejection(Code.INVALID_ARGUMENT, str(error))
            handler.take(self.node, delta)
            if (wait := self._pace.take(loop.time())) > 0:
                await asyncio.sleep(wait)
        return None

    async def _tell(self) -> None:
        try:
            while (asked := self._next) is not None:
                self._next = None
                self._protocol.tell(asked.generation, asked.metrics)
                await self._context.write(asked.message)
        except (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError) as error:
            # Reading from an agent that is gone ends the stream at the same time.
            log.debug("subscription not sent", node=self.node, error=str(error))
        finally:
            self._telling = None

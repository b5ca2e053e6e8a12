"""Writes the Events of a queue on pods, within a rate limit."""

import asyncio
import math
import time
from collections.abc import Callable

from evaluator.core.kube.client import Kube
from evaluator.core.kube.event_queue import EventQueue, EventState, EventTimings
from evaluator.core.kube.event_writer import EventWriter
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.events import EventSpec, suffix_of
from plimsoll import logs
from plimsoll.logs.ratelimited import RateLimitedLogger
from plimsoll.ratelimit import TokenBucket

log = logs.get(__name__)


class PodEventWriter:
    """Writes the due events of `queue`. `counted(reason, result)` is called after each write: ok, error or refused."""

    def __init__(
        self,
        kube: Kube,
        counted: Callable[[str, str], None],
        *,
        is_leader: Callable[[], bool],
        timings: EventTimings,
        bucket: TokenBucket,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.queue = EventQueue(timings)
        self._counted = counted
        self._is_leader = is_leader
        self._timings = timings
        self._bucket = bucket
        self._clock = clock
        self._writer = EventWriter(kube, self._second_turn)
        self._limited_log = RateLimitedLogger(log)
        self._forbidden = False

    def start_over(self) -> None:
        """Forget what was written: this replica has become leader, and another may have written since."""
        self.queue = EventQueue(self._timings)

    def until_due(self) -> float | None:
        """Return the seconds until the next event is due; None if there is none or this replica does not lead."""
        due = self.queue.next_due()
        return max(0.0, due - self._clock()) if self._is_leader() and due < math.inf else None

    async def write(self) -> None:
        """Write the events that are due, within the rate limit. Raises KubeError for errors worth a retry."""
        queue = self.queue
        while self._is_leader() and queue is self.queue:  # start_over() makes another one
            if (state := queue.take(self._clock())) is None:
                break
            if not self._bucket.take_now(self._clock()):
                queue.requeue(state)
                break
            await self._write(queue, state, state.notice)

    async def _write(self, queue: EventQueue, state: EventState, spec: EventSpec) -> None:
        about, count = state.event_key.about, state.count
        suffix = suffix_of(about, spec.reason)
        try:
            count = await self._writer.write(about, spec, suffix=suffix, count=count)
        except KubeError as error:
            if error.transient:
                self._counted(spec.reason, "error")
                queue.requeue(state)
                raise
            self._counted(spec.reason, "refused")
            self._refused(state, error)
        else:
            self._forbidden = False
            self._counted(spec.reason, "ok")
        queue.done(state, spec, self._clock(), count=count)

    async def _second_turn(self) -> None:
        await asyncio.sleep(self._bucket.take(self._clock()))

    def _refused(self, state: EventState, error: KubeError) -> None:
        """Log it. The event is written again when its message changes or is repeated."""
        event_key = state.event_key
        if error.status != 403:
            pod = f"{event_key.namespace}/{event_key.name}"
            self._limited_log.log("event refused", pod=pod, error=str(error))
        elif not self._forbidden and not _closing(error):
            self._forbidden = True
            log.warning(
                "not allowed to write events; see /explain for why pods wait", error=str(error)
            )


def _closing(error: KubeError) -> bool:
    """Return whether the write was rejected because the namespace is being deleted."""
    return any(cause.get("reason") == "NamespaceTerminating" for cause in error.causes)

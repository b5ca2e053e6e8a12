"""Writes Events: one at a time, or those of a queue on pods within a rate limit."""

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Iterator

from prometheus_client import Counter

from evaluator.core.isolation import Part, uncounted
from evaluator.core.kube.client import Kube, now
from evaluator.core.kube.event_queue import EventQueue, EventState, EventTimings
from evaluator.core.kube.transport import KubeError
from evaluator.core.model import events
from evaluator.core.model.events import EventSpec, ObjectReference, suffix_of
from plimsoll import logs
from plimsoll.logs.ratelimited import RateLimitedLogger
from plimsoll.ratelimit import TokenBucket

log = logs.get(__name__)


async def _at_once() -> None:
    """Do not wait."""


class EventWriter:
    """Writes events. `second_turn()` is awaited before a second request for one write: the caller's token covers one."""

    def __init__(self, kube: Kube, second_turn: Callable[[], Awaitable[None]] = _at_once) -> None:
        self._kube = kube
        self._second_turn = second_turn

    async def write(
        self, about: ObjectReference, spec: EventSpec, *, suffix: str, count: int, times: int = 1
    ) -> int:
        """Create the event, or add `times` to its count; return the new count. An expired event is created with the new count, as
        client-go does.

        `suffix` identifies the event among those of the object. `count` is 0 if the event is not known to exist. Counts end at
        `events.MOST_TIMES`.

        Raises:
            KubeError: the API server refused the request or could not be reached.
        """
        total = min(events.MOST_TIMES, count + times)
        body = events.event(about, spec, suffix=suffix, count=total, at=now())
        name = body["metadata"]["name"]
        changes = {field: body[field] for field in ("type", "message", "lastTimestamp")}
        if count:
            with _unless(404):  # events live for an hour
                again = {**changes, "count": total}
                return await self._kube.amend_event(about.event_namespace, name, again)
            await self._second_turn()
        with _unless(409):  # created by another replica, or by this one before a restart
            await self._kube.create_event(body)
            return total
        await self._second_turn()
        return await self._kube.amend_event(about.event_namespace, name, changes)


@contextlib.contextmanager
def _unless(status: int) -> Iterator[None]:
    """Suppress a KubeError of this status, like contextlib.suppress."""
    try:
        yield
    except KubeError as error:
        if error.status != status:
            raise


class PodEventWriter:
    """Writes the due events of `queue`. `written` counts writes by reason and result: ok, error or refused."""

    def __init__(
        self,
        kube: Kube,
        written: Counter,
        *,
        is_leader: Callable[[], bool],
        timings: EventTimings,
        bucket: TokenBucket,
        clock: Callable[[], float] = time.monotonic,
        part: Part | None = None,
    ) -> None:
        self.queue = EventQueue(timings)
        self._part = part or uncounted("events of pods")
        self._written = written
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
            if (state := queue.pop_due(self._clock())) is None:
                break
            if not self._bucket.take_now(self._clock()):
                queue.requeue(state)
                break
            key = "/".join(state.event_key)
            with self._part.isolated(key, passing=(KubeError,)):
                await self._write(queue, state, state.notice)
            if rest := self._part.rest(key):
                queue.postpone(state, self._clock() + rest)

    async def _write(self, queue: EventQueue, state: EventState, spec: EventSpec) -> None:
        about, count = state.event_key.about, state.count
        suffix = suffix_of(about, spec.reason)
        try:
            count = await self._writer.write(about, spec, suffix=suffix, count=count)
        except KubeError as error:
            if error.transient:
                self._written.labels(spec.reason, "error").inc()
                queue.requeue(state)
                raise
            self._written.labels(spec.reason, "refused").inc()
            self._refused(state, error)
        else:
            self._forbidden = False
            self._written.labels(spec.reason, "ok").inc()
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

"""Writes Events on the pods of waiting gangs, so that `kubectl describe pod` shows what is missing."""

import asyncio
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence

from evaluator.gangs.core import events
from evaluator.gangs.core.event_queue import EventQueue, EventState, EventTimings
from evaluator.gangs.core.podgroup import GangKey, PodGroup
from evaluator.gangs.core.types import GangDecisions, GangVerdict
from evaluator.kubeapi.client import Kube
from evaluator.kubeapi.event_writer import EventWriter
from evaluator.kubeapi.transport import KubeError
from evaluator.metrics import Metrics
from evaluator.model.events import EventSpec, suffix_of
from evaluator.model.pod_record import Key, PodRecord
from plimsoll import logs
from plimsoll.backoff import Backoff
from plimsoll.logs.ratelimited import RateLimitedLogger
from plimsoll.ratelimit import TokenBucket
from plimsoll.wakeup import WakeUp

log = logs.get(__name__)

_PAUSE = 0.5
"""Seconds between two rounds: decisions may change many times a second."""
_STEP = 100
"""Gangs, or changed pods, to compare between two yields to the event loop: about half a millisecond."""
_RATE, _BURST = 50.0, 100
"""Writes per second and burst: a small part of an API server's capacity."""

Seen = tuple[PodGroup, GangVerdict, Sequence[str]]


class GangEventRecorder:
    """Writes Events on the pods of waiting gangs. Call `wake()` after new decisions and when blockers change."""

    def __init__(
        self,
        kube: Kube,
        metrics: Metrics,
        gangs: Callable[[], Mapping[GangKey, PodGroup]],
        decisions: Callable[[], GangDecisions],
        blockers: Callable[[GangKey], Sequence[str]] = lambda _key: (),
        native: Callable[[], Mapping[Key, PodRecord]] = dict,
        *,
        is_leader: Callable[[], bool] = lambda: True,
        pace: EventTimings | None = None,
        bucket: TokenBucket | None = None,
        pause: float = _PAUSE,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._metrics = metrics
        self._gangs = gangs
        self._decisions = decisions
        self._blockers = blockers
        self._native = native
        self._is_leader = is_leader
        self._pace = pace or EventTimings()
        self._pause = pause
        self._clock = clock
        self._bucket = bucket or TokenBucket(_RATE, _BURST)
        self._writer = EventWriter(kube, self._second_turn)
        self._limited_log = RateLimitedLogger(log)
        self._wakeup = WakeUp()
        self._queue = EventQueue(self._pace)
        self._seen: dict[GangKey, Seen] = {}
        self._seen_native: dict[Key, PodRecord] = {}
        self._forbidden = False
        self._backoff = Backoff((rng or random.Random()).random)  # noqa: S311 (jitter)

    def wake(self) -> None:
        """Compare decisions with written events soon."""
        self._wakeup.set()

    def start_over(self) -> None:
        """Forget what was written: this replica has become leader, and another may have written since."""
        self._queue, self._seen, self._seen_native = EventQueue(self._pace), {}, {}
        self.wake()

    def record_once(self, pod: PodRecord, notice: EventSpec) -> None:
        """Write an event once, about something that is over."""
        self._queue.mention(pod, notice, self._clock())
        self.wake()

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            await self._wakeup.wait(self._until_due())
            if not self._is_leader():
                continue
            await self._look()
            self._look_at_native()
            try:
                await self._write()
            except KubeError as error:
                delay = max(self._backoff.next(), error.retry_after or 0.0)
                log.warning("events not written, trying again", error=str(error), delay=delay)
                self._wakeup.set()
                await asyncio.sleep(delay)
            else:
                self._backoff.reset()
                await asyncio.sleep(self._pause)

    def _until_due(self) -> float | None:
        if not self._is_leader():
            return None
        due = self._queue.next_due()
        return max(0.0, due - self._clock()) if due < math.inf else None

    async def _look(self) -> None:
        """Enqueue the events of changed gangs; drop those of deleted gangs."""
        gangs, verdicts = self._gangs(), self._decisions().verdicts
        queue, seen = self._queue, self._seen
        looked = 0
        for key, verdict in verdicts.items():
            if (gang := gangs.get(key)) is None:
                continue
            found = (gang, verdict, tuple(self._blockers(key)))
            looked += 1
            if seen.get(key) != found:
                seen[key] = found
                pods = events.concerned(gang, verdict)
                queue.want(key, pods, events.notes(verdict, found[2]), self._clock())
                looked += len(pods)
            if looked >= _STEP:
                looked = 0
                await asyncio.sleep(0)
        for key in [key for key in seen if key not in verdicts or key not in gangs]:
            del seen[key]
            queue.forget(key)

    def _look_at_native(self) -> None:
        native, seen = self._native(), self._seen_native
        for key, pod in native.items():
            if seen.get(key) is not pod:
                seen[key] = pod
                self._queue.want(key, [pod], [events.native()], self._clock())
        for key in seen.keys() - native.keys():
            del seen[key]
            self._queue.forget(key)

    async def _write(self) -> None:
        """Write the events that are due, within the rate limit. Raises KubeError for errors worth a retry."""
        queue = self._queue
        while self._is_leader() and queue is self._queue:  # start_over() makes another one
            if (state := queue.take(self._clock())) is None:
                break
            if not self._bucket.take_now(self._clock()):
                queue.requeue(state)
                break
            notice, about = state.notice, state.event_key.about
            suffix = suffix_of(about, notice.reason)
            try:
                count = await self._writer.write(about, notice, suffix=suffix, count=state.count)
            except KubeError as error:
                if error.transient:
                    self._count(notice, "error")
                    queue.requeue(state)
                    raise
                self._count(notice, "refused")
                self._refused(state, error)
                count = state.count
            else:
                self._forbidden = False
                self._count(notice, "ok")
            queue.done(state, notice, self._clock(), count=count)

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
                "not allowed to write events; see /explain for why pods wait",
                error=str(error),
            )

    def _count(self, notice: EventSpec, result: str) -> None:
        self._metrics.gang_events.labels(notice.reason, result).inc()


def _closing(error: KubeError) -> bool:
    """Return whether the write was rejected because the namespace is being deleted."""
    return any(cause.get("reason") == "NamespaceTerminating" for cause in error.causes)

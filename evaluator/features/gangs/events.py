"""Writes Events on the pods of waiting gangs, so that `kubectl describe pod` shows what is missing."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from evaluator.core.isolation import Part, uncounted
from evaluator.core.kube.client import Kube
from evaluator.core.kube.event_queue import EventTimings
from evaluator.core.kube.event_writers import PodEventWriter
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.events import EventSpec
from evaluator.core.model.pod_record import Key, PodRecord
from evaluator.features.gangs.core import messages
from evaluator.features.gangs.core.podgroup import GangKey, PodGroup
from evaluator.features.gangs.core.types import GangDecisions, GangVerdict
from evaluator.features.gangs.metrics import GangMetrics
from plimsoll import logs
from plimsoll.backoff import Backoff
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
        metrics: GangMetrics,
        gangs: Callable[[], Mapping[GangKey, PodGroup]],
        decisions: Callable[[], GangDecisions],
        blockers: Callable[[GangKey], Sequence[str]],
        native: Mapping[Key, PodRecord],
        *,
        is_leader: Callable[[], bool] = lambda: True,
        pace: EventTimings | None = None,
        bucket: TokenBucket | None = None,
        pause: float = _PAUSE,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        part: Part | None = None,
    ) -> None:
        self._part = part = part or uncounted("events of gangs")
        self._gangs = gangs
        self._decisions = decisions
        self._blockers = blockers
        self._native = native
        self._is_leader = is_leader
        self._pause = pause
        self._clock = clock
        self._writer = PodEventWriter(
            kube,
            metrics.gang_events,
            is_leader=is_leader,
            timings=pace or EventTimings(),
            bucket=bucket or TokenBucket(_RATE, _BURST),
            clock=clock,
            part=part,
        )
        self._wakeup = WakeUp()
        self._seen: dict[GangKey, Seen] = {}
        self._seen_native: dict[Key, PodRecord] = {}
        self._backoff = Backoff((rng or random.Random()).random)  # noqa: S311 (jitter)

    def wake(self) -> None:
        """Compare decisions with written events soon."""
        self._wakeup.set()

    def start_over(self) -> None:
        """Forget what was written: this replica has become leader, and another may have written since."""
        self._writer.start_over()
        self._seen, self._seen_native = {}, {}
        self.wake()

    def record_once(self, pod: PodRecord, notice: EventSpec) -> None:
        """Write an event once, about something that is over."""
        self._writer.queue.mention(pod, notice, self._clock())
        self.wake()

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            await self._wakeup.wait(self._part.until_retry(self._writer.until_due()))
            if not self._is_leader():
                continue
            await self._look()
            self._look_at_native()
            try:
                await self._writer.write()
            except KubeError as error:
                delay = max(self._backoff.next(), error.retry_after or 0.0)
                log.warning("events not written, trying again", error=str(error), delay=delay)
                self._wakeup.set()
                await asyncio.sleep(delay)
            else:
                self._backoff.reset()
                await asyncio.sleep(self._pause)

    async def _look(self) -> None:
        """Enqueue the events of changed gangs; drop those of deleted gangs."""
        gangs, verdicts = self._gangs(), self._decisions().verdicts
        queue, seen = self._writer.queue, self._seen
        looked = 0
        for key, verdict in verdicts.items():
            if (gang := gangs.get(key)) is None:
                continue
            look = partial(self._compare, key, gang, verdict)
            looked += 1 + self._part.attempt(str(key), look, 0)
            if looked >= _STEP:
                looked = 0
                await asyncio.sleep(0)
        for key in [key for key in seen if key not in verdicts or key not in gangs]:
            del seen[key]
            queue.forget(key)

    def _compare(self, key: GangKey, gang: PodGroup, verdict: GangVerdict) -> int:
        """Enqueue the events of a gang if it changed; return the number of pods."""
        reported = (gang, verdict, tuple(self._blockers(key)))
        if self._seen.get(key) == reported:
            return 0
        pods = messages.concerned(gang, verdict)
        notes = messages.notes(verdict, reported[2])
        self._writer.queue.want(key, pods, notes, self._clock())
        self._seen[key] = reported
        return len(pods)

    def _look_at_native(self) -> None:
        native, seen = self._native, self._seen_native
        for key, pod in native.items():
            if seen.get(key) is not pod:
                seen[key] = pod
                with self._part.isolated("/".join(key)):
                    self._writer.queue.want(key, [pod], [messages.native()], self._clock())
        for key in seen.keys() - native.keys():
            del seen[key]
            self._writer.queue.forget(key)

"""Nudges waiting pods that may have a node again, so that kube-scheduler tries them at once: one annotation, at a pace."""

import asyncio
import contextlib
import math
import operator
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from evaluator.cache.cluster import ClusterCache
from evaluator.engine.loop import DecisionLoop
from evaluator.kubeapi.client import Kube
from evaluator.kubeapi.transport import KubeError
from evaluator.metrics import Metrics
from evaluator.model.names import PolicyKey
from evaluator.model.objects import NUDGED
from evaluator.plans import readmitted, requeue
from evaluator.plans.readmitted import ReadmittedNodes
from evaluator.plans.requeue import (
    Refusals,
    RejectedPod,
    RequeueCandidate,
    RequeuePlan,
    RequeueTimings,
)
from evaluator.policy.decide import Decisions
from plimsoll import logs, rfc3339
from plimsoll.backoff import Backoff

log = logs.get(__name__)

_PAUSE = 0.05
"""Seconds for each nudge before the next plan. Who was given a node meanwhile needs none: one bound pod wakes the others."""
_ROUND = 0.02
"""Seconds between two plans, so that a burst of events costs a few of them and not one each."""


@dataclass(frozen=True, slots=True)
class _Line:
    """The pods that one policy turned away, as of this version of those that wait; their chances, and what they rest on."""

    version: int = 0
    refused: Refusals = field(default_factory=dict)
    chances: Sequence[RequeueCandidate] = ()
    places: int = 0
    basis: tuple[object, ...] = ()

    def rests_on(self, places: int, basis: tuple[object, ...]) -> bool:
        """Whether it does on these very objects."""
        same = len(basis) == len(self.basis) and all(map(operator.is_, basis, self.basis))
        return same and self.places == places


class RequeueController:
    """`decided()` after each evaluation, `wake()` when a pod or a node changed. Writes only while `is_leader()`.

    A replica that may not write takes note all the same: it can be the one that may in the next moment.
    """

    def __init__(
        self,
        kube: Kube,
        cluster: ClusterCache,
        decider: DecisionLoop,
        metrics: Metrics,
        *,
        is_leader: Callable[[], bool],
        pace: RequeueTimings,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        self._kube = kube
        self._cluster = cluster
        self._decider = decider
        self._metrics = metrics
        self._is_leader = is_leader
        self._pace = pace
        self._clock = clock
        self._wake = asyncio.Event()
        self._backoff = Backoff((rng or random.Random()).random)  # noqa: S311 (jitter)
        self._decisions: Decisions | None = None
        self._openings: dict[PolicyKey, ReadmittedNodes] = {}
        self._lines: dict[PolicyKey, _Line] = {}
        self._looked_at = -math.inf

    def decided(self) -> None:
        """Compare the new decisions with those before, and look soon."""
        if self._decider.waiting_for:
            return
        after, before, now = self._decider.latest, self._decisions, self._clock()
        if before is None:  # whom an earlier life, or another replica, refused is not known
            self._openings = readmitted.all_readmitted(after, now)
        elif more := readmitted.newly_allowed(before, after):
            self._openings = readmitted.remember(
                self._openings, more, now=now, memory=self._pace.memory
            )
        self._decisions = after
        self._wake.set()

    def wake(self) -> None:
        """Look at the plan soon."""
        self._wake.set()

    async def run(self) -> None:
        """Nudge for ever."""
        delay: float | None = None
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._wake.wait()
            self._wake.clear()
            found, pause, delay = await self._looked(), _ROUND, None
            if self._is_leader():
                plan = requeue.plan(found, pace=self._pace, now=self._clock())
                delay = None if plan.again is None else max(0.0, plan.again - self._clock())
                if plan.due:
                    delay, pause = 0.0, await self._nudge_some(plan)
            await asyncio.sleep(pause)

    async def _looked(self) -> list[RequeueCandidate]:
        """Who has a chance, once it is known of the nodes in question which would take which pod."""
        now, places = self._clock(), self._cluster.feasible_nodes
        if now < self._looked_at:
            self._start_over(now)
        self._looked_at = now
        self._openings = readmitted.remember(self._openings, {}, now=now, memory=self._pace.memory)
        found = await self._chances(now)
        if places.behind:
            for _ in places.catching_up():
                await asyncio.sleep(0)
            found = await self._chances(now)
        return found

    def _start_over(self, now: float) -> None:
        """Somebody has set the clock back: until it is again what it was, all that is known would be of times to come."""
        self._openings = readmitted.all_readmitted(self._decisions, now) if self._decisions else {}
        self._lines = {}

    async def _chances(self, now: float) -> list[RequeueCandidate]:
        """Who has a chance; only those policies are looked at anew, in turns with everybody else, of which something changed."""
        waiting = self._cluster.waiting
        self._lines = {key: line for key, line in self._lines.items() if waiting.version(key)}
        found: list[RequeueCandidate] = []
        for key, opening in self._openings.items():
            before = self._lines.get(key, _Line())
            line = self._look(key, opening, before, now)
            if line is not before:
                self._lines[key] = line
                await asyncio.sleep(0)
            found += line.chances
        return found

    def _look(self, key: PolicyKey, opening: ReadmittedNodes, line: "_Line", now: float) -> "_Line":
        waiting, places = self._cluster.waiting, self._cluster.feasible_nodes
        version = waiting.version(key)
        if line.version != version:
            line = _Line(version, requeue.rejected_pods(waiting.of(key), line.refused, now))
        if not line.refused:
            return line
        decision = self._decisions.policies.get(key) if self._decisions else None
        asked = (decision.dontschedule, bool(decision.unreported)) if decision else ()
        basis = (line.refused, opening, *asked)
        if line.rests_on(places.version, basis):
            return line
        chances = requeue.requeue_candidates(
            line.refused.values(), opening, decision, places, self._pace
        )
        return replace(line, chances=chances, places=places.version, basis=basis)

    async def _nudge_some(self, plan: RequeuePlan) -> float:
        """Nudge the first of them; returns the seconds to wait before the next."""
        for refusal in plan.due:
            try:
                await self._nudge(refusal)
            except KubeError as error:
                self._metrics.nudges.labels("error").inc()
                delay = self._backoff.next()
                log.warning(
                    "pod not nudged, trying again",
                    pod=str(refusal.pod),
                    error=str(error),
                    delay=round(delay, 2),
                )
                return delay
            self._backoff.reset()
        return _PAUSE * len(plan.due)

    async def _nudge(self, refusal: RejectedPod) -> None:
        """Raises KubeError where it is worth another try."""
        now, meta = self._clock(), refusal.pod.metadata
        try:
            await self._kube.annotate_pod(
                meta.namespace, meta.name, meta.uid, {NUDGED: rfc3339.millis(now)}
            )
            self._metrics.nudges.labels("ok").inc()
            log.info("nudged", pod=str(refusal.pod), policy=str(refusal.policy))
        except KubeError as error:
            if error.status not in _GONE:
                raise
        self._note(refusal, refusal.after_nudge(now))

    def _note(self, before: RejectedPod, after: RejectedPod) -> None:
        if (line := self._lines.get(before.policy)) is not None:
            known = line.refused.items()
            refused = {uid: after if one is before else one for uid, one in known}
            self._lines[before.policy] = replace(line, refused=refused, basis=())


_GONE = {404, 409, 422}
"""The pod is no more, or another one has its name."""

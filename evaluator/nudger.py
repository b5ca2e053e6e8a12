"""Nudges waiting pods that may have a node again, so that kube-scheduler tries them at once: one annotation, at a pace."""

import asyncio
import contextlib
import datetime
import random
import time
from collections.abc import Callable, Mapping

from evaluator import nudges
from evaluator.cluster import Cluster
from evaluator.decider import Decider
from evaluator.decisions import Decisions
from evaluator.kube import Kube, KubeError
from evaluator.metrics import Metrics
from evaluator.nudges import Pace, Plan, Refusal
from evaluator.objects import NUDGED
from evaluator.policy import PolicyKey
from plimsoll import logs
from plimsoll.backoff import Backoff

log = logs.get(__name__)

_PAUSE = 0.05
"""Seconds for each nudge before the next plan. Who was given a node meanwhile needs none: one bound pod wakes the others."""
_ROUND = 0.02
"""Seconds between two plans, so that a burst of events costs a few of them and not one each."""


class Nudger:
    """`decided()` after each evaluation, `wake()` when a pod or a node changed. Writes only while `allowed()`.

    A replica that may not write takes note all the same: it can be the one that may in the next moment.
    """

    def __init__(
        self,
        kube: Kube,
        cluster: Cluster,
        decider: Decider,
        metrics: Metrics,
        *,
        allowed: Callable[[], bool],
        pace: Pace,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        self._kube = kube
        self._cluster = cluster
        self._decider = decider
        self._metrics = metrics
        self._allowed = allowed
        self._pace = pace
        self._clock = clock
        self._wake = asyncio.Event()
        self._backoff = Backoff((rng or random.Random()).random)  # noqa: S311 (jitter)
        self._decisions: Decisions | None = None
        self._openings: dict[PolicyKey, dict[str, float]] = {}
        self._refused: Mapping[str, Refusal] = {}

    def decided(self) -> None:
        """Compare the new decisions with those before, and look soon."""
        if self._decider.waiting_for:
            return
        after, before = self._decider.latest, self._decisions
        # Who was let in while nobody looked is not known: after a start, every node counts as just let in.
        more = nudges.opened(before, after) if before else nudges.all_open(after)
        if before is None or more:
            self._openings = nudges.remember(
                self._openings, more, now=self._clock(), memory=self._pace.memory
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
                await asyncio.wait_for(self._wake.wait(), delay)
            self._wake.clear()
            plan, pause = self._plan(), _ROUND
            delay = None if plan.again is None else max(0.0, plan.again - self._clock())
            if plan.due and self._allowed():
                delay, pause = 0.0, await self._nudge_some(plan)
            await asyncio.sleep(pause)

    def _plan(self) -> Plan:
        now = self._clock()
        self._openings = nudges.remember(self._openings, {}, now=now, memory=self._pace.memory)
        if self._decisions is None or not self._openings:
            return Plan((), None)
        self._refused = nudges.refusals(self._cluster.pods.objects.values(), self._refused, now)
        return nudges.plan(
            self._refused,
            self._openings,
            self._decisions,
            self._cluster.nodes.objects,
            pace=self._pace,
            now=now,
        )

    async def _nudge_some(self, plan: Plan) -> float:
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

    async def _nudge(self, refusal: Refusal) -> None:
        """Raises KubeError where it is worth another try."""
        now, meta = self._clock(), refusal.pod.metadata
        try:
            await self._kube.annotate_pod(
                meta.namespace, meta.name, meta.uid, {NUDGED: _timestamp(now)}
            )
            self._metrics.nudges.labels("ok").inc()
            log.info("nudged", pod=str(refusal.pod), policy=str(refusal.policy))
        except KubeError as error:
            if error.status not in _GONE:
                raise
        self._refused = {**self._refused, meta.uid: refusal.after_nudge(now)}


_GONE = {404, 409, 422}
"""The pod is no more, or another one has its name."""


def _timestamp(at: float) -> str:
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""Asks for pods of violated deschedule policies to be evicted, through the API that respects PodDisruptionBudgets."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable
from typing import Any

from evaluator.cache.cluster import ClusterCache
from evaluator.engine.loop import DecisionLoop
from evaluator.kubeapi.client import Kube, now
from evaluator.kubeapi.transport import KubeError
from evaluator.metrics import Metrics
from evaluator.model.names import PolicyKey
from evaluator.plans import events, evictions
from evaluator.plans.evictions import Eviction, EvictionRate
from evaluator.plans.policy_events import EventSpec
from plimsoll import logs

log = logs.get(__name__)

_REST = 0.1
"""Seconds between two plans: every reading may change them, and nobody leaves in such a hurry."""


class EvictionController:
    """Evicts at a pace. `wake()` after new decisions, and when a pod or a node changed."""

    def __init__(
        self,
        kube: Kube,
        cluster: ClusterCache,
        decider: DecisionLoop,
        metrics: Metrics,
        *,
        pace: EvictionRate,
        is_leader: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._cluster = cluster
        self._decider = decider
        self._metrics = metrics
        self._pace = pace
        self._is_leader = is_leader
        self._clock = clock
        self._wake = asyncio.Event()
        self._recent: dict[PolicyKey, tuple[float, ...]] = {}

    def wake(self) -> None:
        """Look at the plan soon."""
        self._wake.set()

    def start_over(self) -> None:
        """This replica evicts from now on. What another did just before is not known: all turns count as used up."""
        used = (self._clock(),) * self._pace.limit
        self._recent = dict.fromkeys(self._decider.latest.policies, used)
        self.wake()

    async def run(self) -> None:
        """Evict for ever: when something changed, and when the next of a policy is due."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._until_next_due()):
                    await self._wake.wait()
            self._wake.clear()
            if self._may_evict():
                for eviction in await self._planned():
                    if self._may_evict():
                        await self._evict(eviction)
            await asyncio.sleep(_REST)

    def _may_evict(self) -> bool:
        return self._is_leader() and not self._decider.waiting_for

    async def _planned(self) -> list[Eviction]:
        """What is due, once it is known of the nodes in question which would take which pod."""
        plan, places = await self._plan(), self._cluster.feasible_nodes
        if places.behind:
            for _ in places.catching_up():
                await asyncio.sleep(0)
            plan = await self._plan()
        return plan

    async def _plan(self) -> list[Eviction]:
        moment = self._clock()
        self._recent = {
            key: kept
            for key, times in self._recent.items()
            if (kept := tuple(at for at in times if moment - at < self._pace.period))
        }
        steps = evictions.plan(
            self._decider.latest,
            self._cluster.running,
            self._cluster.feasible_nodes,
            self._recent,
            pace=self._pace,
            now=moment,
        )
        planned: list[Eviction] = []
        for eviction in steps:
            if eviction is None:
                await asyncio.sleep(0)
            else:
                planned.append(eviction)
        return planned

    def _until_next_due(self) -> float | None:
        oldest = min((times[0] for times in self._recent.values()), default=None)
        if oldest is None or not self._may_evict():
            return None
        return max(0.01, oldest + self._pace.period - self._clock())

    async def _evict(self, eviction: Eviction) -> None:
        pod, key = eviction.pod, eviction.policy
        context = log.bind(pod=str(pod), policy=str(key), node=pod.spec.node_name)
        # A refusal uses up the turn as well: asking again at once would be answered the same.
        self._recent[key] = (*self._recent.get(key, ()), self._clock())
        try:
            await self._kube.evict(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
        except KubeError as error:
            result = "refused" if error.status == 429 else "error"
            context.warning("eviction %s", result, error=str(error))
        else:
            result = "ok"
            context.info("evicted", reason=eviction.reason)
            await self._tell(eviction)
        self._metrics.evictions.labels(*key, result).inc()

    async def _tell(self, eviction: Eviction) -> None:
        """Leave an event on the pod: whoever wonders why it went looks there."""
        try:
            await self._kube.create_event(event(eviction, at=now()))
        except KubeError as error:
            log.warning("event not written", pod=str(eviction.pod), error=str(error))


def event(eviction: Eviction, *, at: str) -> dict[str, Any]:
    """A core/v1 Event on an evicted pod; `at` is RFC 3339."""
    meta = eviction.pod.metadata
    why = f"Evicted: node {eviction.pod.spec.node_name} {eviction.reason}"
    return events.event(
        events.on_pod(meta.namespace, meta.name, meta.uid),
        EventSpec("Warning", "PolicyViolated", why),
        suffix=uuid.uuid4().hex[:16],
        count=1,
        at=at,
    )

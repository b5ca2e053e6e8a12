"""Evicts pods of violated deschedule policies through the Eviction API, which respects PodDisruptionBudgets."""

import asyncio
import math
import time
import uuid
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter

from evaluator.core.kube.client import Kube, now
from evaluator.core.kube.transport import KubeError
from evaluator.core.model import events
from evaluator.core.model.events import EventSpec
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod import Pod
from evaluator.core.policy.causes import causes_at
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.readings.reported import CauseOf, no_cause
from evaluator.core.signals import Acted
from evaluator.core.writes.node_writer import WriteContext
from evaluator.features.evictions import plan as evictions
from evaluator.features.evictions.plan import Eviction, EvictionRate
from plimsoll import logs
from plimsoll.text import one_line
from plimsoll.wakeup import WakeUp

log = logs.get(__name__)

EVICTED, NOT_EVICTED = "evicted", "not evicted"
"""Kinds of its actions."""
_REST = 0.1
"""Seconds between two plans: any reading may change them."""
_LONGEST = 1_024
"""Characters of an Event's message (Kubernetes)."""


class EvictionMetrics:
    """The metrics of evictions."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.evictions = Counter(
            "plimsoll_evictions",
            "Evictions requested, by policy and result.",
            ["namespace", "policy", "result"],
            registry=registry,
        )


class EvictionController:
    """Evicts pods at a bounded rate. Call `wake()` after new decisions and when a pod or node changed.

    Writes only while `is_leader()`.
    """

    def __init__(
        self,
        context: WriteContext,
        metrics: EvictionMetrics,
        *,
        pace: EvictionRate,
        may_evict: Callable[[PolicyKey, str], bool] = lambda _policy, _node: True,
        clock: Callable[[], float] = time.monotonic,
        placed: evictions.PodsPlaced | None = None,
        cause_of: CauseOf = no_cause,
    ) -> None:
        self._publish = context.publish
        self._kube = context.kube
        self._cluster = context.cluster
        self._decider = context.decider
        self._is_leader = context.is_leader
        self._metrics = metrics
        self._part = context.isolation.part("evictions")
        self._pace = pace
        self._permitted = may_evict
        self._placed = placed
        self._cause_of = cause_of
        self._clock = clock
        self._wakeup = WakeUp()
        self._recent: dict[PolicyKey, tuple[float, ...]] = {}
        self._planned_at = -math.inf

    def wake(self) -> None:
        """Plan soon."""
        self._wakeup.set()

    def start_over(self) -> None:
        """This replica became leader. Recent evictions by another are unknown, so the limit counts as used up."""
        used = (self._clock(),) * self._pace.limit
        self._recent = dict.fromkeys(self._decider.latest.policies, used)
        self.wake()

    async def run(self) -> None:
        """Evict until cancelled: after a wake-up, and when the next eviction of a policy is permitted."""
        while True:
            await self._wakeup.wait(self._until_next_due())
            if self._may_evict():
                for eviction in await self._planned():
                    pod = str(eviction.pod)
                    if self._may_evict() and not self._part.is_resting(pod):
                        with self._part.isolated(pod):
                            await self._evict(eviction)
            await asyncio.sleep(_REST)

    def _may_evict(self) -> bool:
        return self._is_leader() and not self._decider.waiting_for

    async def _planned(self) -> list[Eviction]:
        """The evictions that are due, after the feasible nodes are up to date."""
        plan, feasible_nodes = await self._plan(), self._cluster.feasible_nodes
        if feasible_nodes.behind:
            for _ in feasible_nodes.catching_up():
                await asyncio.sleep(0)
            plan = await self._plan()
        return plan

    async def _plan(self) -> list[Eviction]:
        moment = self._planned_at = self._clock()
        self._recent = {
            key: kept
            for key, times in self._recent.items()
            if (
                kept := tuple(
                    at for at in times if moment - at < max(evictions.HOUR, self._pace.period)
                )
            )
        }
        steps = evictions.plan(
            self._decider.latest,
            self._cluster.running,
            self._cluster.feasible_nodes,
            self._recent,
            rate=self._pace,
            now=moment,
            may_evict=self._permitted,
            leaving=self._cluster.leaving,
            placed=self._placed,
            guard=self._part,
        )
        planned: list[Eviction] = []
        for eviction in steps:
            if eviction is None:
                await asyncio.sleep(0)
            else:
                planned.append(eviction)
        return planned

    def _until_next_due(self) -> float | None:
        """Return the seconds until a policy that the last plan had no eviction left for has one; None if there is none."""
        ends = (at + self._pace.period for times in self._recent.values() for at in times)
        first = min((end for end in ends if end > self._planned_at), default=None)
        again = self._part.until_retry()
        waits = [again] if again is not None else []
        waits += [first - self._clock()] if first is not None else []
        return max(0.01, min(waits)) if waits and self._may_evict() else None

    async def _evict(self, eviction: Eviction) -> None:
        pod, key = eviction.pod, eviction.policy
        context = log.bind(pod=str(pod), policy=str(key), node=pod.spec.node_name)
        # A refusal counts too: an immediate retry would be refused again.
        self._recent[key] = (*self._recent.get(key, ()), self._clock())
        try:
            await evict(self._kube, pod)
        except KubeError as error:
            result = "refused" if error.status == 429 else "error"
            self._note(NOT_EVICTED, eviction, str(error))
            context.warning("eviction %s", result, error=str(error))
        else:
            result = "ok"
            causes = self._causes(eviction)
            context.info("evicted", reason=eviction.reason, causes=causes)
            self._note(EVICTED, eviction, eviction.reason)
            await self._record(eviction, causes)
        self._metrics.evictions.labels(*key, result).inc()

    def _causes(self, eviction: Eviction) -> str:
        """Return what the readings of the violated rules come from, such as the device; empty if agents do not say."""
        decisions, node = self._decider.latest, eviction.pod.spec.node_name
        decision, position = (
            decisions.policies.get(eviction.policy),
            decisions.table.nodes.position.get(node),
        )
        if decision is None or position is None:
            return ""
        strategies = (StrategyName.DESCHEDULE,)
        return "; ".join(causes_at(decision, decisions.table, position, self._cause_of, strategies))

    def _note(self, kind: str, eviction: Eviction, text: str) -> None:
        pod = eviction.pod
        node = pod.spec.node_name or ""
        self._publish(Acted(kind, eviction.policy, node, str(pod), text))

    async def _record(self, eviction: Eviction, causes: str) -> None:
        """Write an Event on the pod with the reason; log a failure."""
        try:
            await self._kube.create_event(event(eviction, causes, at=now()))
        except KubeError as error:
            log.warning("event not written", pod=str(eviction.pod), error=str(error))


async def evict(kube: Kube, pod: Pod) -> None:
    """Evict a pod by the Eviction API. Raises KubeError, with status 429 if a PodDisruptionBudget forbids it."""
    meta = pod.metadata
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta.name, "namespace": meta.namespace},
        "deleteOptions": {"preconditions": {"uid": meta.uid}},
    }
    await kube.create_subresource(meta.namespace, meta.name, "eviction", body)


def event(eviction: Eviction, causes: str = "", *, at: str) -> dict[str, Any]:
    """A core/v1 Event on an evicted pod; `at` is RFC 3339. `causes`: what the readings come from."""
    meta = eviction.pod.metadata
    why = f"Evicted: node {eviction.pod.spec.node_name} {eviction.reason}"
    why = one_line(f"{why} ({causes})" if causes else why, _LONGEST)
    return events.event(
        events.on_pod(meta.namespace, meta.name, meta.uid),
        EventSpec("Warning", "PolicyViolated", why),
        suffix=uuid.uuid4().hex[:16],
        count=1,
        at=at,
    )

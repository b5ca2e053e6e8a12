"""Evicts pods of violated deschedule policies through the Eviction API, which respects PodDisruptionBudgets."""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import replace

from prometheus_client import CollectorRegistry, Counter, Gauge

from evaluator.core.kube.client import now
from evaluator.core.kube.event_queue import EventTimings
from evaluator.core.kube.event_writers import PodEventWriter
from evaluator.core.kube.transport import KubeError
from evaluator.core.leader.write_fence import NotLeaderError
from evaluator.core.model.events import EventSpec
from evaluator.core.policy.causes import causes_at, violation_message
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.readings.reported import CauseOf, no_cause
from evaluator.core.signals import Acted, PolicyReportChanged
from evaluator.core.writes.node_writer import WriteContext
from evaluator.features.evictions import plan as evictions
from evaluator.features.evictions import report as reports
from evaluator.features.evictions import volumes
from evaluator.features.evictions.api import event, evict
from evaluator.features.evictions.history import EvictionHistory
from evaluator.features.evictions.neighbours import Neighbours
from evaluator.features.evictions.plan import (
    PASSING,
    ClusterView,
    Eviction,
    EvictionRate,
    PolicyPlan,
)
from evaluator.features.evictions.refusals import is_doubtful, meaning
from evaluator.features.evictions.report import EvictionReport, notice
from evaluator.features.evictions.store import EvictionStore
from evaluator.features.evictions.successors import OBSTACLES, KnownPods
from plimsoll import logs
from plimsoll.ratelimit import TokenBucket
from plimsoll.wakeup import WakeUp

log = logs.get(__name__)

EVICTED, NOT_EVICTED = "evicted", "not evicted"
"""Kinds of its actions."""
_REST = 0.1
"""Seconds between two plans: any reading may change them."""
_BUSY = 5.0
"""Seconds without evictions after the API server was busy and did not say for how long."""
_GONE = frozenset({404, 409})
"""The pod is gone, or another one has its name."""
_EVENT_RATE, _EVENT_BURST = 5.0, 20
"""Events a second and at once about pods that stay."""
_MOST_NOTICED = 100
"""Pods of a policy with such an Event, for each reason."""


class EvictionMetrics:
    """The metrics of evictions."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.evictions = Counter(
            "plimsoll_evictions",
            "Evictions requested, by policy and result.",
            ["namespace", "policy", "result"],
            registry=registry,
        )
        self.events = Counter(
            "plimsoll_eviction_events",
            "Writes of Events on pods that are not evicted, by reason and result.",
            ["reason", "result"],
            registry=registry,
        )
        self.not_stored = Gauge(
            "plimsoll_evictions_not_stored",
            "Whether the evictions of the last hour cannot be read or stored (1): one pod leaves in --evictPeriod.",
            registry=registry,
        )
        for result in ("ok", "error"):
            self.events.labels(reports.NOT_EVICTED, result)


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
        cluster: ClusterView,
        clock: Callable[[], float] = time.monotonic,
        cause_of: CauseOf = no_cause,
        namespace: str = "",
        known: Callable[[], KnownPods] | None = None,
        checked: Callable[[], str] = reports.against_all,
    ) -> None:
        """`namespace`: of the ConfigMap with the evictions of the last hour. `known`: returns the known pods as of now.

        `checked`: see `EvictionReport`.
        """
        self._publish = context.publish
        self._kube = context.kube
        self._decider = context.decider
        self._is_leader = context.is_leader
        self._part = context.isolation.part("evictions")
        self._metrics = metrics
        self._pace = pace
        self._cluster = cluster
        self._cause_of = cause_of
        self._clock = clock
        self._wakeup = WakeUp()
        self._history = EvictionHistory(context.rng.random)
        self._known = context.cluster
        self._known_pods = known
        self._store = EvictionStore(
            context.kube, namespace, self._history, exact=max(60.0, pace.period), clock=clock
        )
        metrics.not_stored.set_function(lambda: self._is_leader() and bool(self._store.trouble))
        self._slowly_at = -math.inf
        """When the last pod was evicted, or this replica began to lead, while evictions are not stored."""
        self._again_at = math.inf
        self._busy_until = self._touch_at = -math.inf
        self.report = EvictionReport(self._reported, checked)
        self._notices = PodEventWriter(
            context.kube,
            metrics.events,
            is_leader=context.is_leader,
            timings=EventTimings(rest=60.0),
            bucket=TokenBucket(_EVENT_RATE, _EVENT_BURST),
            clock=clock,
            part=self._part,
        )

    def wake(self) -> None:
        """Plan soon."""
        self._wakeup.set()

    def start_over(self) -> None:
        """This replica became leader. The limit of the period counts as used up: another may have evicted, and not stored it."""
        self._history.use_up(self._clock() + self._pace.period)
        self._store.start_over()
        self._slowly_at = self._clock()
        self._notices.start_over()
        self.wake()

    async def run(self) -> None:
        """Evict until cancelled: after a wake-up, and when time alone changes what is due."""
        while True:
            await self._wakeup.wait(self._until_next())
            if self._may_evict():
                await self._round()
            await asyncio.sleep(_REST)

    def _may_evict(self) -> bool:
        return self._is_leader() and not self._decider.waiting_for

    def _until_next(self) -> float | None:
        if not self._may_evict():
            return None
        next_plan = max(self._again_at, self._busy_until) - self._clock()
        found = (next_plan, self._notices.until_due(), self._part.until_retry())
        first = min(seconds for seconds in found if seconds is not None)
        return None if math.isinf(first) else max(0.01, first)

    async def _round(self) -> None:
        """Plan, evict what is due, and report what stays."""
        plans = await self._planned()
        if (plans and not self._store.known) or self._store.trouble:
            await self._store.ready()
            plans = await self._planned()  # on what the last leader did
        self._store.reserve({plan.policy: len(plan.due) for plan in plans if plan.due})
        tried = [await self._carry_out(plan) for plan in plans]
        self._store.reserve({})
        if any(tried):
            await self._store.ready()
            self.wake()  # what stays, and why, has changed
        else:
            self._note_stays(plans)
        await self._write_notices()

    async def _planned(self) -> list[PolicyPlan]:
        """The plans of all policies, after the feasible nodes are up to date."""
        plans, feasible_nodes = await self._plan(), self._cluster.feasible_nodes
        if feasible_nodes.behind:
            for _ in feasible_nodes.catching_up():
                await asyncio.sleep(0)
            plans = await self._plan()
        return plans

    async def _plan(self) -> list[PolicyPlan]:
        moment, decisions = self._clock(), self._decider.latest
        if self._history.settle(self._running, moment):
            self._store.changed()
        self._history.forget(moment, self._pace.period, decisions.enforced)
        plans: list[PolicyPlan] = []
        cluster = replace(self._cluster, successors=self._successors())
        for plan in evictions.plan(
            decisions, cluster, self._history, rate=self._pace, now=moment, guard=self._part
        ):
            plans.append(plan)
            await asyncio.sleep(0)
        self._again_at = min([self._store.again_at, *(plan.again_at for plan in plans)])
        if any(not OBSTACLES.isdisjoint(plan.stays) for plan in plans):
            # No signal says that a pod without a policy left.
            self._again_at = min(self._again_at, moment + evictions.READ_AGAIN)
        waiting = any(evictions.NOT_INCLUDED in plan.stays for plan in plans)
        if waiting and moment >= self._touch_at:
            # Readings that do not change make no new decision, but they may include the pods by now.
            self._touch_at = moment + evictions.READ_AGAIN
            self._decider.touch()
        return plans

    def _running(self) -> set[str]:
        """Return the UIDs of the running pods."""
        return {pod.metadata.uid for pod in self._known.pods.objects.values() if pod.running}

    def _successors(self) -> KnownPods:
        """Return what could keep successors from running, as of now."""
        if self._known_pods is not None:
            return self._known_pods()
        pods = self._known.pods.objects.values()
        return KnownPods(Neighbours.of(pods), self._known.nodes.objects)

    async def _carry_out(self, plan: PolicyPlan) -> bool:
        """Try the evictions of a policy until as many as permitted happened; return whether one was tried."""
        tried, most = False, self._history.number(plan.policy) + plan.allowance
        for eviction in plan.evictions:
            if (
                self._history.number(plan.policy) >= most
                or not self._may_evict()
                or self._clock() < self._busy_until
            ):
                break
            may = False
            with self._part.isolated(f"limits of {eviction.pod}"):
                may = self._may_try(eviction)
            if may:
                if not await self._stored():
                    break
                tried = True
                with self._part.isolated(str(eviction.pod)):
                    await self._evict(eviction)
        return tried

    def _may_try(self, eviction: Eviction) -> bool:
        """Return whether a pod may leave: not if that was stopped since it was planned, nor after a refusal."""
        if not self._cluster.may_evict(eviction.policy, eviction.pod.spec.node_name):
            return False
        return self._history.refusal(eviction.pod, self._clock()) is None

    async def _stored(self) -> bool:
        """Return whether the next eviction may happen: it is reserved in the object, or the last one was a period ago."""
        if not self._store.covers:
            self._store.changed()
            await self._store.ready()
        if self._store.covers:
            return True
        due_at = self._slowly_at + self._pace.period
        self._again_at = min(self._again_at, max(due_at, self._clock() + _REST))
        return self._clock() >= due_at

    async def _evict(self, eviction: Eviction) -> None:
        """Evict a pod, unless its volumes or the API server keep it."""
        pod, key = eviction.pod, eviction.policy
        self._history.attempted(key, self._clock())
        nodes = self._known.nodes.objects
        if why := await volumes.obstacle(pod, eviction.alternatives, nodes, self._kube):
            self._history.refused(pod, why, self._clock(), budget=False)
            return
        try:
            await evict(self._kube, pod)
        except NotLeaderError:
            return
        except KubeError as error:
            self._refused(eviction, error)
            return
        self._history.evicted(key, pod, self._cluster.running.pods_of(key), self._clock())
        self._slowly_at = self._clock()
        self._store.evicted(key, self._clock())
        causes = self._causes(eviction)
        log.info(
            "evicted",
            pod=str(pod),
            policy=str(key),
            node=pod.spec.node_name,
            reason=eviction.reason,
            causes=causes,
        )
        why = self._violation(eviction)
        notice = EventSpec("Warning", "PodEvicted", f"evicted pod {pod}: {why}")
        self._note(EVICTED, eviction, why, notice)
        await self._record(eviction, causes)
        self._metrics.evictions.labels(*key, "ok").inc()

    def _doubt(self, eviction: Eviction) -> None:
        """Count an eviction that may have happened."""
        moment = self._slowly_at = self._clock()
        self._history.doubtful(eviction.policy, eviction.pod, moment)
        self._store.evicted(eviction.policy, moment)

    def _refused(self, eviction: Eviction, error: KubeError) -> None:
        """Let the pod rest; after a refusal that is not about it, all pods."""
        if is_doubtful(error):
            self._doubt(eviction)
        pod, key, moment = eviction.pod, eviction.policy, self._clock()
        found, least = meaning(error), error.retry_after or 0.0
        if found.busy:
            self._busy_until = moment + (least or _BUSY)
            self._again_at = min(self._again_at, self._busy_until)
        else:
            self._history.refused(pod, found.why, moment, budget=found.budget, least=least)
        result = "refused" if error.status == 429 else "error"
        self._metrics.evictions.labels(*key, result).inc()
        if error.status not in _GONE:
            self._note(NOT_EVICTED, eviction, found.why)
        log.warning(
            "eviction %s",
            result,
            pod=str(pod),
            policy=str(key),
            node=pod.spec.node_name,
            error=str(error),
        )

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

    def _violation(self, eviction: Eviction) -> str:
        """Return the rules that the pod's node violates, with their readings."""
        decisions, node = self._decider.latest, eviction.pod.spec.node_name
        decision = decisions.policies.get(eviction.policy)
        if decision is None:
            return eviction.reason
        return violation_message(decision, decisions.table, node, self._cause_of)

    def _note(
        self, kind: str, eviction: Eviction, text: str, notice: EventSpec | None = None
    ) -> None:
        pod = eviction.pod
        node = pod.spec.node_name or ""
        self._publish(Acted(kind, eviction.policy, node, str(pod), text, notice=notice))

    async def _record(self, eviction: Eviction, causes: str) -> None:
        """Write an Event on the pod with the reason; log a failure."""
        try:
            await self._kube.create_event(event(eviction, causes, at=now()))
        except KubeError as error:
            log.warning("event not written", pod=str(eviction.pod), error=str(error))

    def _reported(self) -> None:
        self._publish(PolicyReportChanged())

    def _note_stays(self, plans: list[PolicyPlan]) -> None:
        """Report the pods that stay, and want an Event on each."""
        self.report.update(plans, self._store.trouble)
        queue, moment = self._notices.queue, self._clock()
        wanted = {
            (plan.policy, why): [pod.metadata for pod in pods][:_MOST_NOTICED]
            for plan in plans
            for why, pods in plan.stays.items()
            if why not in PASSING
        }
        for subject in [*queue.subjects]:
            if subject not in wanted:
                queue.forget(subject)
        for (policy, why), pods in wanted.items():
            with self._part.isolated(f"Events of {policy}"):
                queue.want((policy, why), pods, [notice(why)], moment)

    async def _write_notices(self) -> None:
        """Write the Events that are due; log a failure, after which they are tried again."""
        try:
            await self._notices.write()
        except KubeError as error:
            log.warning("event not written", error=str(error))

"""Requeues pods that a policy rejected and that fit again: an annotation makes kube-scheduler retry them at once."""

import asyncio
import math
import operator
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from prometheus_client import CollectorRegistry, Counter

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.isolation import Part, uncounted
from evaluator.core.kube.client import Kube
from evaluator.core.kube.transport import KubeError
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod import REQUEUED_AT
from evaluator.core.policy.decide import Decisions
from evaluator.core.signals import Acted, Publish, unheard
from evaluator.features.requeue import plan as requeue
from evaluator.features.requeue.plan import (
    ReadmittedNodes,
    RejectedPod,
    RejectedPods,
    RequeueCandidate,
    RequeuePlan,
    RequeueTimings,
)
from plimsoll import logs, rfc3339
from plimsoll.backoff import Backoff
from plimsoll.logs.ratelimited import RateLimitedLogger
from plimsoll.wakeup import WakeUp

log = logs.get(__name__)

REQUEUED = "requeued"
"""The kind of its action."""

_PAUSE = 0.05
"""Seconds per requeued pod before the next plan. A pod that was bound meanwhile wakes the others by itself."""
_ROUND = 0.02
"""Seconds between two plans, so that a burst of events costs few plans."""


class RequeueMetrics:
    """The metrics of requeued pods."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.nudges = Counter(
            "plimsoll_nudges",
            "Rejected pods requeued because a node may take them, by result.",
            ["result"],
            registry=registry,
        )
        for result in ("ok", "error"):
            self.nudges.labels(result)


@dataclass(frozen=True, slots=True)
class _PolicyState:
    """The rejected pods of one policy at a version of the waiting pods, the requeue candidates and the inputs used."""

    version: int = 0
    refused: RejectedPods = field(default_factory=dict)
    candidates: Sequence[RequeueCandidate] = ()
    feasible: int = 0
    basis: tuple[object, ...] = ()

    def is_based_on(self, feasible: int, basis: tuple[object, ...]) -> bool:
        """Whether the candidates were computed from these very objects."""
        same = len(basis) == len(self.basis) and all(map(operator.is_, basis, self.basis))
        return same and self.feasible == feasible


class RequeueController:
    """Requeues rejected pods. Call `decided()` after each decision, `wake()` when a pod or node changed.

    Writes only while `is_leader()`. Other replicas keep the same state: each may become leader.
    """

    def __init__(
        self,
        kube: Kube,
        cluster: ClusterCache,
        decider: DecisionLoop,
        metrics: RequeueMetrics,
        *,
        is_leader: Callable[[], bool],
        pace: RequeueTimings,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        publish: Publish = unheard,
        part: Part | None = None,
    ) -> None:
        self._publish = publish
        self._part = part or uncounted("requeue")
        self._kube = kube
        self._cluster = cluster
        self._decider = decider
        self._metrics = metrics
        self._is_leader = is_leader
        self._pace = pace
        self._clock = clock
        self._wakeup = WakeUp()
        self._backoff = Backoff((rng or random.Random()).random)  # noqa: S311 (jitter)
        self._decisions: Decisions | None = None
        self._readmitted: dict[PolicyKey, ReadmittedNodes] = {}
        self._states: dict[PolicyKey, _PolicyState] = {}
        self._last_round = -math.inf
        self._not_requeued = RateLimitedLogger(log)

    def decided(self) -> None:
        """Compare the new decisions with the previous ones, and plan soon."""
        if self._decider.waiting_for:
            return
        after, before, now = self._decider.latest, self._decisions, self._clock()
        if before is None:  # rejections before a restart are unknown
            self._readmitted = requeue.all_readmitted(after, now)
        elif more := requeue.newly_allowed(before, after, self._part):
            self._readmitted = requeue.remember(
                self._readmitted, more, now=now, memory=self._pace.memory
            )
        self._decisions = after
        self._wakeup.set()

    def wake(self) -> None:
        """Plan soon."""
        self._wakeup.set()

    async def run(self) -> None:
        """Requeue until cancelled."""
        delay: float | None = None
        while True:
            await self._wakeup.wait(self._part.until_retry(delay))
            candidates, pause, delay = await self._candidates(), _ROUND, None
            if self._is_leader():
                plan = requeue.plan(self._tried(candidates), timings=self._pace, now=self._clock())
                delay = None if plan.again is None else max(0.0, plan.again - self._clock())
                if plan.due:
                    delay, pause = 0.0, await self._requeue_due(plan)
            await asyncio.sleep(pause)

    async def _candidates(self) -> list[RequeueCandidate]:
        """The requeue candidates, after the feasible nodes are up to date."""
        now, feasible = self._clock(), self._cluster.feasible_nodes
        if now < self._last_round:
            self._start_over(now)
        self._last_round = now
        self._readmitted = requeue.remember(self._readmitted, {}, now=now, memory=self._pace.memory)
        candidates = await self._collect(now)
        if feasible.behind:
            for _ in feasible.catching_up():
                await asyncio.sleep(0)
            candidates = await self._collect(now)
        return candidates

    def _start_over(self, now: float) -> None:
        """The clock was set back: drop state with times in the future."""
        self._readmitted = requeue.all_readmitted(self._decisions, now) if self._decisions else {}
        self._states = {}

    async def _collect(self, now: float) -> list[RequeueCandidate]:
        """The requeue candidates of all policies. Only changed policies are recomputed, yielding to the event loop."""
        waiting = self._cluster.waiting
        self._states = {key: state for key, state in self._states.items() if waiting.version(key)}
        candidates: list[RequeueCandidate] = []
        for key, readmitted_nodes in self._readmitted.items():
            before = self._states.get(key, _PolicyState())
            update = partial(self._update, key, readmitted_nodes, before, now)
            state = self._part.attempt(str(key), update, before)
            if state is not before:
                self._states[key] = state
                await asyncio.sleep(0)
            candidates += state.candidates
        return candidates

    def _update(
        self, key: PolicyKey, readmitted_nodes: ReadmittedNodes, state: "_PolicyState", now: float
    ) -> "_PolicyState":
        waiting, feasible = self._cluster.waiting, self._cluster.feasible_nodes
        version = waiting.version(key)
        if state.version != version:
            state = _PolicyState(
                version,
                requeue.find_rejected(waiting.pods_of(key), state.refused, now, self._part),
            )
        if not state.refused:
            return state
        decision = self._decisions.enforced.get(key) if self._decisions else None
        policy_state = (decision.dontschedule, bool(decision.unreported)) if decision else ()
        basis = (state.refused, readmitted_nodes, *policy_state)
        if state.is_based_on(feasible.version, basis):
            return state
        candidates = requeue.requeue_candidates(
            state.refused.values(), readmitted_nodes, decision, feasible, self._pace
        )
        return replace(state, candidates=candidates, feasible=feasible.version, basis=basis)

    async def _requeue_due(self, plan: RequeuePlan) -> float:
        """Requeue the pods that are due; returns the seconds to wait before the next plan."""
        for rejected in plan.due:
            failure: KubeError | None = None
            with self._part.isolated(str(rejected.pod)):
                failure = await self._requeue(rejected)
            if failure is None:
                self._backoff.reset()
                continue
            self._metrics.nudges.labels("error").inc()
            overloaded, least = failure.status in _OVERLOADED, failure.retry_after or 0.0
            pod = str(rejected.pod)
            delay = self._backoff.next() if overloaded else self._part.refused(pod, least)
            self._not_requeued.log(
                "pod not requeued, trying again", pod=pod, error=str(failure), delay=round(delay, 2)
            )
            if overloaded:
                return delay
        return _PAUSE * len(plan.due)

    def _tried(self, candidates: Iterable[RequeueCandidate]) -> Iterable[RequeueCandidate]:
        """Return the candidates without pods that are left alone after an internal error."""
        return (one for one in candidates if not self._part.is_resting(str(one.rejected.pod)))

    async def _requeue(self, rejected: RejectedPod) -> KubeError | None:
        """Annotate one pod; return a failure that is worth a retry."""
        now, meta = self._clock(), rejected.pod.metadata
        try:
            await self._kube.annotate_pod(
                meta.namespace, meta.name, meta.uid, {REQUEUED_AT: rfc3339.millis(now)}
            )
            self._metrics.nudges.labels("ok").inc()
            log.info("pod requeued", pod=str(rejected.pod), policy=str(rejected.policy))
            done = Acted(REQUEUED, rejected.policy, pod=str(rejected.pod))
            self._publish(done)
        except KubeError as error:
            if error.status not in _GONE:
                return error
        self._note(rejected, rejected.after_requeue(now))
        return None

    def _note(self, before: RejectedPod, after: RejectedPod) -> None:
        if (state := self._states.get(before.policy)) is not None:
            known = state.refused.items()
            refused = {uid: after if reason is before else reason for uid, reason in known}
            self._states[before.policy] = replace(state, refused=refused, basis=())


_OVERLOADED = {0, 429, 503}
"""No response, or an API server that is busy: other pods wait, too. Any other refusal is about one pod."""
_GONE = {404, 409, 422}
"""The pod was deleted, or another one has its name."""

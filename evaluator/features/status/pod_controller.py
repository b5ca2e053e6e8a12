"""Writes an Event on each pod that names a policy which does not apply to it, and counts these pods."""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter

from evaluator.core.cache import policy_pods
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.policy_pods import NotApplied, PodCounts
from evaluator.core.isolation import Part, uncounted
from evaluator.core.kube.client import Kube
from evaluator.core.kube.event_queue import EventTimings
from evaluator.core.kube.event_writers import PodEventWriter
from evaluator.core.kube.transport import KubeError
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.metrics import PolicyGauge
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod import Pod
from evaluator.core.policy.types import Policy
from evaluator.core.signals import Publish, Signal, unheard
from plimsoll import logs
from plimsoll.backoff import Backoff
from plimsoll.ratelimit import TokenBucket
from plimsoll.wakeup import WakeUp

log = logs.get(__name__)

_TIMINGS = EventTimings(settle=5.0, patience=30.0, rest=60.0, repeat=float("inf"))
"""An object may be applied before the one it names."""
_RATE, _BURST = 10.0, 20
"""Writes per second and burst."""
_PAUSE = 1.0
"""Seconds between two rounds."""
_STEP = 100
"""Pods or policies between two yields to the event loop: well below a millisecond."""


class StatusMetrics:
    """The metrics of Events on policies and pods, and of pods that name a policy."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.policy_pods = PolicyGauge(
            "plimsoll_policy_pods",
            "Waiting and running pods that name a policy by state: following, or ignored, since the policy does not apply to them.",
            ["namespace", "policy", "state"],
            registry=registry,
        )
        self.pod_events = Counter(
            "plimsoll_pod_events",
            "Events on pods that name a policy, by reason and result.",
            ["reason", "result"],
            registry=registry,
        )
        self.node_events_dropped = Counter(
            "plimsoll_node_events_dropped",
            "Events on nodes about actions of policies that were not written: too many at once, or refused by the API server.",
            registry=registry,
        )
        self.policy_events = Counter(
            "plimsoll_policy_events",
            "Occurrences recorded as Events on a policy by reason; under the rate limit, several share one write.",
            ["namespace", "policy", "reason"],
            registry=registry,
        )


class _Identity(NamedTuple):
    """Identifies a pod."""

    namespace: str
    name: str
    uid: str


class _Seen(NamedTuple):
    """The pods that name one policy, as they were last compared: versions of the indexes, reasons, pods with an event."""

    requesting: int = 0
    not_requesting: int = 0
    with_request: NotApplied | None = None
    without_request: NotApplied | None = None
    """Why the policy does not apply to pods with and without the request."""
    pods: frozenset[_Identity] = frozenset()


class PodCountsChanged(Signal, frozen=True):
    """How many pods name a policy, in some state, changed."""


class PolicyPodController:
    """Counts the pods of policies and writes Events of those that a policy does not apply to. `wake()` when pods changed."""

    def __init__(
        self,
        kube: Kube,
        cluster: ClusterCache,
        decider: DecisionLoop,
        metrics: StatusMetrics,
        *,
        is_leader: Callable[[], bool] = lambda: True,
        publish: Publish = unheard,
        timings: EventTimings = _TIMINGS,
        pause: float = _PAUSE,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        part: Part | None = None,
    ) -> None:
        self._part = part = part or uncounted("pods of policies")
        self._cluster = cluster
        self._decider = decider
        self._metrics = metrics
        self._is_leader = is_leader
        self._pause = pause
        self._clock = clock
        self._writer = PodEventWriter(
            kube,
            metrics.pod_events,
            is_leader=is_leader,
            timings=timings,
            bucket=TokenBucket(_RATE, _BURST),
            clock=clock,
            part=part,
        )
        self._publish = publish
        self._wakeup = WakeUp()
        self._seen: dict[PolicyKey, _Seen] = {}
        self._counts: dict[PolicyKey, PodCounts] = {}
        self._elsewhere: dict[str, int] = {}
        """By name of a policy: pods that name it in namespaces without it. Thousands of namespaces may use one name."""
        self._backoff = Backoff((rng or random.Random()).random)  # noqa: S311 (jitter)

    def wake(self) -> None:
        """Compare soon."""
        self._elsewhere.clear()
        self._wakeup.set()

    def start_over(self) -> None:
        """This replica became leader: forget what was written, another replica may have written since."""
        self._writer.start_over()
        self._seen = {}
        self.wake()

    def counts_of(self, policy: Policy) -> PodCounts:
        """Return the counts of a policy now."""
        known, name = self._cluster, policy.key.name
        pods = known.requesting, known.not_requesting
        if name not in self._elsewhere:
            policies = known.policies.objects.keys()
            self._elsewhere[name] = policy_pods.pods_elsewhere(name, policies, *pods)
        return policy_pods.pod_counts(policy, self._elsewhere[name], *pods)

    async def run(self) -> None:
        """Count and write events until cancelled."""
        while True:
            await self._wakeup.wait(self._part.until_retry(self._writer.until_due()))
            if self._decider.waiting_for:
                continue
            for _ in self._count():
                await asyncio.sleep(0)
            delay = self._pause
            if self._is_leader():
                await self._look()
                try:
                    await self._writer.write()
                except KubeError as error:
                    delay = max(self._backoff.next(), error.retry_after or 0.0)
                    log.warning("events not written, trying again", error=str(error), delay=delay)
                    self._wakeup.set()
                else:
                    self._backoff.reset()
            await asyncio.sleep(delay)

    def _count(self) -> Iterator[None]:
        """Update the gauges, a few policies with each step, and publish that a count changed."""
        policies = list(self._cluster.policies.objects.values())
        gauge, changed = self._metrics.policy_pods, False
        for key in self._counts.keys() - {policy.key for policy in policies}:
            del self._counts[key]
            for state in PodCounts._fields:
                gauge.remove((*key, state))
        for number, policy in enumerate(policies, start=1):
            count = partial(self._count_one, policy)
            changed |= self._part.attempt(f"pods of {policy.key}", count, False)
            if number % _STEP == 0:
                yield
        if changed:
            self._publish(PodCountsChanged())

    def _count_one(self, policy: Policy) -> bool:
        """Update the gauges of a policy; return whether a count changed."""
        counts = self.counts_of(policy)
        if self._counts.get(policy.key) == counts:
            return False
        self._counts[policy.key] = counts
        for state, count in counts._asdict().items():
            self._metrics.policy_pods.set((*policy.key, state), count)
        return True

    async def _look(self) -> None:
        """Enqueue the events of pods that their policy does not apply to; drop those of others."""
        seen, policies = self._seen, dict(self._cluster.policies.objects)
        requesting, without = self._cluster.requesting, self._cluster.not_requesting
        namespaces, names = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        for key in policies:
            namespaces[key.name].add(key.namespace)
            names[key.namespace].add(key.name)
        for number, key in enumerate({*seen, *requesting.policies, *without.policies}):
            if not self._part.is_resting(str(key)):
                elsewhere = namespaces.get(key.name, ())
                with self._part.isolated(str(key)):
                    for _ in self._compare(key, policies, elsewhere, seen, names[key.namespace]):
                        await asyncio.sleep(0)
            if number % _STEP == 0:
                await asyncio.sleep(0)

    def _compare(
        self,
        key: PolicyKey,
        policies: Mapping[PolicyKey, Policy],
        elsewhere: Collection[str],
        seen: dict[PolicyKey, _Seen],
        names: Collection[str],
    ) -> Iterator[None]:
        """Enqueue the events of the pods that name a policy if they, or why it does not apply to them, changed."""
        with_request, without_request = (
            policy_pods.why_not_applied(key, policies, elsewhere, requests=x) for x in (True, False)
        )
        cluster = self._cluster
        versions = cluster.requesting.version(key), cluster.not_requesting.version(key)
        now = _Seen(*versions, with_request, without_request)
        if seen.get(key, _Seen())[:4] != now[:4]:
            yield from self._enqueue(key, now, seen, names)

    def _enqueue(
        self, key: PolicyKey, now: _Seen, seen: dict[PolicyKey, _Seen], names: Collection[str]
    ) -> Iterator[None]:
        """Enqueue the events of the pods that name one policy, a few pods with each step."""
        queue, pods = self._writer.queue, set[_Identity]()
        before = seen.get(key, _Seen()).pods
        for index, why in (
            (self._cluster.requesting, now.with_request),
            (self._cluster.not_requesting, now.without_request),
        ):
            if why is None:
                continue
            spec = policy_pods.event(key, why, names)
            for pod in tuple(index.pods_of(key)):
                identity = _identity(pod)
                pods.add(identity)
                queue.want(identity, [identity], [spec], self._clock())
                if len(pods) % _STEP == 0:
                    yield
        for gone in before - pods:
            queue.forget(gone)
        if now.requesting or now.not_requesting:
            seen[key] = now._replace(pods=frozenset(pods))
        else:
            seen.pop(key, None)


def _identity(pod: Pod) -> _Identity:
    meta = pod.metadata
    return _Identity(meta.namespace, meta.name, meta.uid)

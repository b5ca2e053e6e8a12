"""Selects waiting pods to requeue: those rejected by a policy from nodes that it allows again.

kube-scheduler tries a pod that an extender turned away again only after minutes, unless something changes; a pod with a
new annotation it tries at once. Whom we turned away is read from the pod: kube-scheduler writes our reason into its
condition. So any replica knows it, also one that has just started.
"""

import bisect
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from evaluator.cache.feasible_nodes import FeasibleNodes
from evaluator.cache.pods_by_policy import policy_of
from evaluator.model.names import PolicyKey
from evaluator.model.objects import REQUEUED_AT, Pod
from evaluator.plans.readmitted import ReadmittedNodes
from evaluator.policy.decide import Decision
from evaluator.policy.evaluate import reason_prefix
from plimsoll import rfc3339

_IN_FLIGHT = 2.0
"""Seconds between our answer and its text in the pod. A refusal seen so late may be of before the node was let in again."""

_SKEW = 60.0
"""Seconds by which another replica's clock may be ahead; an annotation from farther away is nobody's nudge."""


@dataclass(frozen=True, slots=True)
class RequeueTimings:
    """Times in seconds; `limit` pods at once. After its first nudge a pod rests for `first`, after each more for twice as long, up to `longest`.

    What happened longer than `memory` ago is forgotten: by then the scheduler has tried again by itself. A nudge waits for
    `settle`, so that every replica that the scheduler may ask has had the time to decide the same.
    """

    limit: int = 10
    first: float = 1.0
    longest: float = 60.0
    settle: float = 0.1
    memory: float = 300.0


@dataclass(frozen=True, slots=True)
class RejectedPod:
    """A waiting pod that a policy turned away: since when its condition says so, when it was last nudged, how often by then."""

    pod: Pod
    policy: PolicyKey
    text: str
    since: float
    requeued: float = 0.0
    times: int = 0

    def after_requeue(self, at: float) -> "RejectedPod":
        """The same, when it was nudged."""
        return replace(self, requeued=at, times=self.times + 1)

    def rested(self, pace: RequeueTimings) -> float:
        """When it may be nudged again."""
        if not self.times:
            return 0.0
        return self.requeued + min(pace.first * 2.0 ** min(self.times - 1, 32), pace.longest)


Refusals = Mapping[str, RejectedPod]
"""By the pod's uid."""


def rejected_pods(pods: Iterable[Pod], known: Refusals, now: float) -> dict[str, RejectedPod]:
    """The pods that wait because of a policy, with what was known of them before."""
    found: dict[str, RejectedPod] = {}
    for pod in pods:
        policy, text = _turned_away(pod)
        if policy is None:
            continue
        uid = pod.metadata.uid
        rejected = known.get(uid) or RejectedPod(pod, policy, "", now)
        if (rejected.policy, rejected.text) != (policy, text):
            rejected = replace(rejected, policy=policy, text=text, since=now)
        # Another replica, or this one before it was started again, may have nudged it.
        if rejected.requeued < (at := _requeued_at(pod)) < now + _SKEW:
            rejected = rejected.after_requeue(at)
        found[uid] = replace(rejected, pod=pod)
    return found


def _turned_away(pod: Pod) -> tuple[PolicyKey | None, str]:
    policy = policy_of(pod)
    if policy is None or not pod.waiting:
        return None, ""
    text = pod.unschedulable_because
    return (policy, text) if reason_prefix(policy.name) in text else (None, "")


def _requeued_at(pod: Pod) -> float:
    # 0 without the annotation, or if it has a value that is not a timestamp.
    return rfc3339.parse_or_none((pod.metadata.annotations or {}).get(REQUEUED_AT)) or 0.0


@dataclass(frozen=True, slots=True)
class RequeueCandidate:
    """A pod that has a node now which it had not when it was refused, and from when on it may be nudged."""

    start: float
    rejected: RejectedPod


def requeue_candidates(
    refused: Iterable[RejectedPod],
    readmitted: ReadmittedNodes,
    decision: Decision | None,
    feasible_nodes: FeasibleNodes,
    pace: RequeueTimings,
) -> list[RequeueCandidate]:
    """Of the pods that one policy turned away, those that have a chance, whatever time it is.

    One nudge for each time that a node was let in again, however often its pod is refused after that.
    """
    if decision is not None and decision.unreported:
        return []  # they would be told to come again later
    found: list[RequeueCandidate] = []
    known: dict[int, list[float]] = {}
    for rejected in refused:
        takers = feasible_nodes.takers(rejected.pod)
        if (times := known.get(id(takers))) is None:
            times = known[id(takers)] = readmitted.times(takers, decision)
        later = bisect.bisect_right(times, max(rejected.requeued, rejected.since - _IN_FLIGHT))
        if later < len(times):
            start = max(times[later] + pace.settle, rejected.rested(pace))
            found.append(RequeueCandidate(start, rejected))
    return found


@dataclass(frozen=True, slots=True)
class RequeuePlan:
    """Whom to nudge now, in that order, and when to look again though nothing changes (None: never)."""

    due: tuple[RejectedPod, ...]
    again: float | None


def plan(found: Iterable[RequeueCandidate], *, pace: RequeueTimings, now: float) -> RequeuePlan:
    """Of those that have a chance, the ones of high priority and of old age first. The others' turn comes when these were nudged."""
    due: list[RejectedPod] = []
    later: list[float] = []
    for chance in found:
        if chance.start <= now:
            due.append(chance.rejected)
        else:
            later.append(chance.start)
    first = heapq.nsmallest(pace.limit, due, key=_order)
    return RequeuePlan(tuple(first), min(later, default=None))


def _order(rejected: RejectedPod) -> tuple[int, str, str]:
    pod = rejected.pod
    return (-pod.spec.priority, pod.metadata.creation_timestamp or "", str(pod))

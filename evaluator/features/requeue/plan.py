"""Selects waiting pods to requeue: those rejected by a policy from nodes that it readmitted, and since when it did.

kube-scheduler retries a pod rejected by an extender after minutes, unless something changes; a changed annotation
makes it retry at once. Rejected pods are recognized by our reason in their PodScheduled condition, so any replica
finds them, even just after startup.
"""

import bisect
import heapq
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from evaluator.core.cache.policy_pods import policy_of
from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.model.arrays import Floats
from evaluator.core.model.feasibility import FeasibleNodes
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Mask, NodeIndex, NodeMask, Reindex
from evaluator.core.model.pod import REQUEUED_AT, Pod
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.violations import refuses, violators
from plimsoll import rfc3339

_IN_FLIGHT = 2.0
"""Seconds between our response and its text in the pod's condition. A rejection observed that soon may precede the
readmission.
"""

_SKEW = 60.0
"""Seconds by which another replica's clock may be ahead; later timestamps are ignored."""


@dataclass(frozen=True, slots=True)
class ReadmittedNodes:
    """When a policy stopped refusing each node (seconds; NaN: not recently), as an array over `nodes`.

    Nodes refused again keep their time. `start`: the time at which all other nodes count as readmitted (None: not).
    It is set after startup, when the nodes refused by the previous process are unknown.
    """

    nodes: NodeIndex = field(default_factory=NodeIndex)
    at: Floats = field(default_factory=lambda: np.zeros(0))
    start: float | None = None

    def times(self, feasible: Set[str], decision: Decision | None) -> list[float]:
        """Return, in ascending order, when the `feasible` nodes that are not refused now were readmitted."""
        refused: Set[str] = decision.dontschedule.keys() if decision else frozenset()
        known = NodeMask(self.nodes, ~np.isnan(self.at))
        pairs = zip(known.names, self.at[known.mask].tolist(), strict=True)
        times = sorted(at for node, at in pairs if node in feasible and node not in refused)
        if self.start is not None and any(
            node not in refused and node not in known.members for node in feasible
        ):
            return [self.start, *times]
        return times

    def after(self, horizon: float) -> "ReadmittedNodes":
        """Return the entries after `horizon`; the same object if all are."""
        expired = self.start is not None and self.start <= horizon
        old = self.at <= horizon
        if not expired and not old.any():
            return self
        return ReadmittedNodes(
            self.nodes, np.where(old, np.nan, self.at), None if expired else self.start
        )

    def with_nodes(self, nodes: NodeMask, at: float) -> "ReadmittedNodes":
        """Return a copy with nodes readmitted at `at`."""
        known = Reindex(self.nodes, nodes.nodes).values(self.at)
        return ReadmittedNodes(nodes.nodes, np.where(nodes.mask, at, known), self.start)

    @property
    def empty(self) -> bool:
        """Whether no node counts as readmitted."""
        return self.start is None and bool(np.isnan(self.at).all())


ReadmittedByPolicy = Mapping[PolicyKey, ReadmittedNodes]


def newly_allowed(
    before: Decisions, after: Decisions, guard: Guard = UNGUARDED
) -> dict[PolicyKey, NodeMask]:
    """Return, per enforced policy, the nodes that it refused before and does not refuse now. `guard`: of each policy."""
    allowed: dict[PolicyKey, NodeMask] = {}
    nodes = after.table.nodes
    reindex = Reindex(before.table.nodes, nodes)
    for key, was in before.enforced.items():
        now = after.enforced.get(key)
        if now is not None and (now is was or now.dontschedule is was.dontschedule):
            continue
        find = partial(_readmitted, was, now, reindex, before.table.nodes, nodes)
        readmitted = guard.run(f"readmissions of {key}", find, nodes.none)
        if readmitted.any():
            allowed[key] = NodeMask(nodes, readmitted)
    return allowed


def _readmitted(
    was: Decision, now: Decision | None, reindex: Reindex, before: NodeIndex, nodes: NodeIndex
) -> Mask:
    refused = violators(now.dontschedule if now else {}, nodes)
    return reindex.mask(violators(was.dontschedule, before)) & ~refused


def all_readmitted(decisions: Decisions, now: float) -> dict[PolicyKey, ReadmittedNodes]:
    """Return the state after startup: every node that is not refused counts as just readmitted."""
    return {key: ReadmittedNodes(start=now) for key in decisions.policies}


def remember(
    readmitted_by_policy: ReadmittedByPolicy,
    more: Mapping[PolicyKey, NodeMask],
    *,
    now: float,
    memory: float,
) -> dict[PolicyKey, ReadmittedNodes]:
    """Add the nodes readmitted now, and drop those older than `memory` seconds; unchanged entries are the same objects."""
    merged = dict(_kept(readmitted_by_policy, now - memory))
    for key, nodes in more.items():
        merged[key] = merged.get(key, ReadmittedNodes()).with_nodes(nodes, now)
    return merged


def _kept(
    readmitted_by_policy: ReadmittedByPolicy, horizon: float
) -> Iterator[tuple[PolicyKey, ReadmittedNodes]]:
    for key, readmitted in readmitted_by_policy.items():
        kept = readmitted.after(horizon)
        if not kept.empty:
            yield key, kept


@dataclass(frozen=True, slots=True)
class RequeueTimings:
    """Times in seconds; `limit` pods at once. The backoff of a pod starts at `first` and doubles up to `longest`.

    Readmissions older than `memory` are dropped: by then the scheduler has retried. A requeue waits for `settle`, so
    that every replica has made the same decision.
    """

    limit: int = 10
    first: float = 1.0
    longest: float = 60.0
    settle: float = 0.1
    memory: float = 300.0


@dataclass(frozen=True, slots=True)
class RejectedPod:
    """A waiting pod rejected by a policy: since when, when it was last requeued, and how often."""

    pod: Pod
    policy: PolicyKey
    text: str
    since: float
    requeued: float = 0.0
    times: int = 0

    def after_requeue(self, at: float) -> "RejectedPod":
        """Return a copy that was requeued at `at`."""
        return replace(self, requeued=at, times=self.times + 1)

    def backoff_ends(self, timings: RequeueTimings) -> float:
        """Return when its backoff ends."""
        if not self.times:
            return 0.0
        return self.requeued + min(timings.first * 2.0 ** min(self.times - 1, 32), timings.longest)


RejectedPods = Mapping[str, RejectedPod]
"""Rejected pods by uid."""


def find_rejected(
    pods: Iterable[Pod], known: RejectedPods, now: float, guard: Guard = UNGUARDED
) -> dict[str, RejectedPod]:
    """Return the pods waiting because of a policy, with their known state. `guard`: of each pod."""
    rejected_pods: dict[str, RejectedPod] = {}
    for pod in pods:
        find = partial(_rejected, pod, known, now)
        if (rejected := guard.run(f"rejection of {pod}", find, None)) is not None:
            rejected_pods[pod.metadata.uid] = rejected
    return rejected_pods


def _rejected(pod: Pod, known: RejectedPods, now: float) -> RejectedPod | None:
    policy, text = _rejection(pod)
    if policy is None:
        return None
    rejected = known.get(pod.metadata.uid) or RejectedPod(pod, policy, "", now)
    if (rejected.policy, rejected.text) != (policy, text):
        rejected = replace(rejected, policy=policy, text=text, since=now)
    # Another replica, or this one before a restart, may have requeued it.
    if rejected.requeued < (at := _requeued_at(pod)) < now + _SKEW:
        rejected = rejected.after_requeue(at)
    return replace(rejected, pod=pod)


def _rejection(pod: Pod) -> tuple[PolicyKey | None, str]:
    policy = policy_of(pod)
    if policy is None or not pod.waiting:
        return None, ""
    # After an error no node was refused, and kube-scheduler retries by itself.
    text = pod.unschedulable_because
    return (policy, text) if refuses(policy.name, text) else (None, "")


def _requeued_at(pod: Pod) -> float:
    # 0 without the annotation, or if it has a value that is not a timestamp.
    return rfc3339.parse_or_none((pod.metadata.annotations or {}).get(REQUEUED_AT)) or 0.0


@dataclass(frozen=True, slots=True)
class RequeueCandidate:
    """A rejected pod with a readmitted node, and when it may be requeued."""

    start: float
    rejected: RejectedPod


def requeue_candidates(
    rejected_pods: Iterable[RejectedPod],
    readmitted: ReadmittedNodes,
    decision: Decision | None,
    feasible_nodes: FeasibleNodes,
    timings: RequeueTimings,
) -> list[RequeueCandidate]:
    """Return the rejected pods of one policy for which a node was readmitted, whatever the time.

    Each readmission gives one requeue, however often the pod is rejected afterwards.
    """
    if decision is not None and decision.unreported:
        return []  # the extender would answer 503
    candidates: list[RequeueCandidate] = []
    known: dict[int, list[float]] = {}
    for rejected in rejected_pods:
        feasible = feasible_nodes.for_pod(rejected.pod)
        if (times := known.get(id(feasible))) is None:
            times = known[id(feasible)] = readmitted.times(feasible, decision)
        later = bisect.bisect_right(times, max(rejected.requeued, rejected.since - _IN_FLIGHT))
        if later < len(times):
            start = max(times[later] + timings.settle, rejected.backoff_ends(timings))
            candidates.append(RequeueCandidate(start, rejected))
    return candidates


@dataclass(frozen=True, slots=True)
class RequeuePlan:
    """The pods to requeue now, in order, and when to plan again (None: only after a change)."""

    due: tuple[RejectedPod, ...]
    again: float | None


def plan(
    candidates: Iterable[RequeueCandidate], *, timings: RequeueTimings, now: float
) -> RequeuePlan:
    """Return the plan: highest priority first, then oldest. The others follow after these."""
    due: list[RejectedPod] = []
    later: list[float] = []
    for candidate in candidates:
        if candidate.start <= now:
            due.append(candidate.rejected)
        else:
            later.append(candidate.start)
    first = heapq.nsmallest(timings.limit, due, key=_order)
    return RequeuePlan(tuple(first), min(later, default=None))


def _order(rejected: RejectedPod) -> tuple[int, str, str]:
    pod = rejected.pod
    return (-pod.spec.priority, pod.metadata.creation_timestamp or "", str(pod))

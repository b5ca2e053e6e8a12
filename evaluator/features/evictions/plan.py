"""Plans evictions: which pods of a violated deschedule policy leave, in which order, and why the others stay. Pure."""

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from evaluator.core.cache.policy_pods import PodsByPolicy
from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.model.feasibility import FeasibleNodes
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Mask
from evaluator.core.model.pod import Pod
from evaluator.core.page_fields import EnforcementFields
from evaluator.core.placement.ledger import PlacedPod
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy_status import Effect, Effects
from evaluator.features.evictions.annotations import AdmittedPods
from evaluator.features.evictions.history import HOUR, EvictionHistory
from evaluator.features.evictions.kept import why_kept
from plimsoll import rfc3339
from plimsoll.text import counted

MOST_PER_POD = 6
"""Evictions for a policy in an hour, per running pod of it: policies that move each other's pods end up here at the latest."""
MOST_ATTEMPTS = 5
"""Attempts of a policy in a period, per eviction that it may do in it."""
_NAMED = 5
"""Pods that a message names; the others are counted."""
READ_AGAIN = 5.0
"""Seconds until readings are looked at again that may include a pod by now."""

RAISED = "an internal error: the evaluator's log has it"
NODE_LIMIT = "the limit of nodes is reached, see the condition NodeLimitReached"
NO_ALTERNATIVE = (
    "no other node is eligible: all violate the policy, are full, leave, or do not match"
)
NOT_INCLUDED = "the readings do not include them yet"
RETURNED = "they came back to the node that they were evicted from: nothing keeps them away, such as a dontschedule rule"  # fmt: skip
HOUR_USED_UP = f"{MOST_PER_POD} evictions per running pod in an hour are used up"
TURN = "they wait for their turn, see --evictPeriod and --evictLimit"
PASSING = frozenset({NOT_INCLUDED, TURN})
"""Why pods stay that leave by themselves soon."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """One pod to evict, with the reason."""

    policy: PolicyKey
    pod: Pod
    reason: str
    alternatives: Collection[str] = ()
    """Nodes that the policy and the pod's constraints permit; all of them if `ClusterView.successors` is given."""


@dataclass(frozen=True, slots=True)
class EvictionRate:
    """At most `limit` pods of one policy in `period` seconds."""

    period: float
    limit: int


class EvictFields(EnforcementFields):
    """Whether the evaluator evicts pods."""

    evict: bool


Stays = Mapping[str, Collection[Pod]]
"""Pods that stay on violating nodes, by why: a phrase about several pods."""


@dataclass(frozen=True, slots=True)
class PolicyPlan:
    """What is due for one policy: as many of `evictions` as `allowance`, in order; more are tried where some are refused.

    `again_at`: when this may change without anything else happening (seconds).
    """

    policy: PolicyKey
    evictions: tuple[Eviction, ...] = ()
    allowance: int = 0
    stays: Stays = field(default_factory=dict)
    again_at: float = math.inf

    @property
    def due(self) -> tuple[Eviction, ...]:
        """The evictions to do if none is refused."""
        return self.evictions[: self.allowance]


class PodsPlaced(Protocol):
    """Knows the pods that the readings do not include yet."""

    def crowded(self, decision: Decision, decisions: Decisions, pod: PlacedPod) -> Mask:
        """Return the nodes that would violate a policy with a pod more, shape (nodes,)."""
        ...

    def included_at(self, uid: str, decision: Decision, decisions: Decisions) -> float:
        """Return when readings can include a pod (seconds); 0 if the current ones do."""
        ...


class Successors(Protocol):
    """Knows what could keep the successor of a pod from running, beside what `FeasibleNodes` knows."""

    def obstacle(self, pod: Pod, nodes: Collection[str]) -> str:
        """Return why none of the nodes could take it, as a phrase about several pods; empty if one could."""
        ...


def _unlimited(_policy: PolicyKey, _node: str) -> bool:
    """Return True: nodes are not limited."""
    return True


def _unknown(_pod: Pod) -> float | None:
    """Return None: the usage of pods is not known."""
    return None


@dataclass(frozen=True, kw_only=True)
class ClusterView:
    """What a plan reads of the cluster.

    `may_evict` returns whether a policy may evict from a node, within the limit of nodes; nodes in `leaving` are about to be
    drained and are no alternatives. `above_request` returns how far a pod's usage is above its request; None if unknown.
    """

    running: PodsByPolicy
    feasible_nodes: FeasibleNodes
    may_evict: Callable[[PolicyKey, str], bool] = _unlimited
    leaving: Set[str] = frozenset()
    placed: PodsPlaced | None = None
    successors: Successors | None = None
    above_request: Callable[[Pod], float | None] = _unknown


def plan(
    decisions: Decisions,
    cluster: ClusterView,
    history: EvictionHistory,
    *,
    rate: EvictionRate,
    now: float,
    guard: Guard = UNGUARDED,
) -> Iterator[PolicyPlan]:
    """Yield the plan of each policy with pods on violating nodes at `now` (seconds); each can take milliseconds.

    A pod without another node that its policy and its constraints allow stays: evicting it would only make it Pending. So
    does one that would make all of these violate the policy, with the pods on their way there, and one that the readings do
    not include yet. In an hour, at most MOST_PER_POD times its pods are evicted for a policy. `guard` takes what the plan of
    one policy raises.
    """
    for key, decision in decisions.enforced.items():
        if decision.deschedule and cluster.running.pods_of(key):

            def planned(decision: Decision = decision) -> PolicyPlan:
                return _PolicyPlanner(
                    decision, decisions, cluster, history, rate, now, guard
                ).plan()

            yield guard.attempt(str(key), planned, PolicyPlan(key))


class _PolicyPlanner:
    """Plans the evictions of one policy."""

    def __init__(
        self,
        decision: Decision,
        decisions: Decisions,
        cluster: ClusterView,
        history: EvictionHistory,
        rate: EvictionRate,
        now: float,
        guard: Guard,
    ) -> None:
        self._guard = guard
        self._key, self._decision, self._decisions = decision.policy.key, decision, decisions
        self._cluster, self._history = cluster, history
        self._rate, self._now = rate, now
        self._pods = cluster.running.pods_of(self._key)
        self._admitted = decision.policy.actions.part(AdmittedPods)
        crowded = _crowded(decision, decisions, self._pods, cluster.placed)
        self._alternatives = _Alternatives(decision, cluster, crowded)
        self._stays: dict[str, list[Pod]] = defaultdict(list)
        self._again_at = math.inf

    def plan(self) -> PolicyPlan:
        """Return the plan."""
        candidates = list(self._candidates())
        allowance, attempts, limit = self._allowed()
        first = heapq.nsmallest(attempts, candidates, key=self._order)
        due = {id(pod) for pod in first[:allowance]}
        for pod in candidates:
            if id(pod) not in due:
                refused = self._history.last_refusal(pod)
                self._stays[refused.why if refused is not None else limit].append(pod)
        return PolicyPlan(
            self._key,
            tuple(self._eviction(pod) for pod in first),
            allowance,
            dict(self._stays),
            self._again_at,
        )

    def _eviction(self, pod: Pod) -> Eviction:
        reason = self._decision.deschedule[pod.spec.node_name]
        return Eviction(self._key, pod, reason, self._alternatives.nodes(pod))

    def _candidates(self) -> Iterator[Pod]:
        """Yield the pods that may leave; others are added to those that stay."""
        for pod in self._pods:
            if pod.spec.node_name in self._decision.deschedule and not self._rests(pod):
                find = partial(self._why_stays, pod)
                if why := self._guard.run(f"plan of {pod}", find, RAISED):
                    self._stays[why].append(pod)
                else:
                    yield pod

    def _rests(self, pod: Pod) -> bool:
        """Return whether a pod is left alone, since its eviction raised."""
        if not (seconds := self._guard.rest(str(pod))):
            return False
        self._again(self._now + seconds)
        return True

    def _why_stays(self, pod: Pod) -> str:
        if why := why_kept(pod, self._admitted):
            return why
        if not self._cluster.may_evict(self._key, pod.spec.node_name):
            return NODE_LIMIT
        if why := self._alternatives.obstacle(pod):
            return why
        return self._why_not_yet(pod)

    def _why_not_yet(self, pod: Pod) -> str:
        """Return why a pod stays that leaves later, and note when."""
        placed, now = self._cluster.placed, self._now
        if placed is not None and (
            at := placed.included_at(pod.metadata.uid, self._decision, self._decisions)
        ):
            self._again(at if at > now else now + READ_AGAIN)
            return NOT_INCLUDED
        if (at := self._history.returns_at(self._key, pod)) > now:
            self._again(at)
            return RETURNED
        if (refusal := self._history.refusal(pod, now)) is not None:
            self._again(refusal.until)
            return refusal.why
        return ""

    def _again(self, at: float) -> None:
        self._again_at = min(self._again_at, at)

    def _allowed(self) -> tuple[int, int, str]:
        """Return how many evictions and attempts are permitted now, and what limits the evictions."""
        period, now = self._rate.period, self._now
        done = self._history.done(self._key, now - period)
        tried = self._history.tried(self._key, now - period)
        hour = self._history.done(self._key, now - HOUR)
        for times, span in ((done, period), (tried, period), (hour, HOUR)):
            if times:
                self._again(times[0] + span)
        in_hour = max(0, MOST_PER_POD * len(self._pods) - len(hour))
        in_period = max(0, self._rate.limit - len(done))
        if (until := self._history.used_up_until()) > now:
            self._again(until)
            in_period = 0
        attempts = max(0, MOST_ATTEMPTS * self._rate.limit - len(tried))
        allowance = min(in_period, in_hour)
        return allowance, attempts if allowance else 0, TURN if in_hour else HOUR_USED_UP

    def _order(self, pod: Pod) -> tuple[float, ...]:
        """Return the order of a pod: the lowest priority first, then the most above its request, then the youngest.

        Pods that were refused again and again come last, or they would keep all attempts from the others.
        """
        above = self._cluster.above_request(pod)
        created = rfc3339.parse_or_none(pod.metadata.creation_timestamp)
        refused = self._history.refused_at(pod)
        age = math.inf if created is None else -created
        return (refused, pod.spec.priority, -(above or 0.0), age)


def _crowded(
    decision: Decision, decisions: Decisions, pods: Collection[Pod], placed: PodsPlaced | None
) -> Set[str]:
    """Return the nodes that have no room for the largest of the pods that would leave."""
    if placed is None:
        return frozenset()
    moving = [pod.spec.requests for pod in pods if pod.spec.node_name in decision.deschedule]
    if not moving:
        return frozenset()
    largest = PlacedPod("largest", decision.policy.key, tuple(map(max, zip(*moving, strict=True))))
    nodes = decisions.table.nodes
    return frozenset(nodes.names_at(placed.crowded(decision, decisions, largest)))


def evictable(decision: Decision, pods: Collection[Pod], cluster: ClusterView) -> list[Pod]:
    """Return the pods that would leave violating nodes, at any rate; complete unless the feasible nodes are behind."""
    if not pods or not decision.deschedule:
        return []
    alternatives = _Alternatives(decision, cluster, frozenset())
    admitted = decision.policy.actions.part(AdmittedPods)
    return [
        pod
        for pod in pods
        if pod.spec.node_name in decision.deschedule
        and not why_kept(pod, admitted)
        and not alternatives.obstacle(pod)
    ]


class _Alternatives:
    """Whether a policy allows a pod another feasible node; cached per set of placement constraints."""

    def __init__(self, decision: Decision, cluster: ClusterView, crowded: Set[str]) -> None:
        violating = (decision.deschedule.keys(), decision.dontschedule.keys())
        self._excluded: tuple[Collection[str], ...] = (
            *violating,
            decision.unreported,
            cluster.leaving | crowded,
        )
        self._feasible_nodes = cluster.feasible_nodes
        self._successors = cluster.successors
        self._known: dict[int, Collection[str]] = {}

    def obstacle(self, pod: Pod) -> str:
        """Return why no other node could take a pod's successor, as a phrase about several pods; empty if one could."""
        nodes = self.nodes(pod)
        if not nodes:
            return NO_ALTERNATIVE
        return self._successors.obstacle(pod, nodes) if self._successors is not None else ""

    def nodes(self, pod: Pod) -> Collection[str]:
        """Return the nodes that policy and constraints permit; one of them if no more are needed."""
        feasible = self._feasible_nodes.for_pod(pod)
        if (known := self._known.get(id(feasible))) is None:
            found = (n for n in feasible if not any(n in some for some in self._excluded))
            # Without `successors`, one is as good as all.
            most = None if self._successors is not None else 1
            known = self._known[id(feasible)] = tuple(itertools.islice(found, most))
        return known


class EvictionEffects(Effects):
    """The pods to evict from violating nodes, whatever the rate. `evicting`: whether --evict is set."""

    def __init__(self, cluster: ClusterView, *, evicting: bool) -> None:
        self._cluster = cluster
        self._evicting = evicting

    def catching_up(self, decisions: Decisions) -> Iterator[None]:
        """Bring the evictable pods of observed policies up to date, in steps."""
        for decision in decisions.policies.values():
            if decision.policy.observed:
                self._evicted(decision)
                yield
        yield from self._cluster.feasible_nodes.catching_up()

    def effects(self, decision: Decision, _table: MetricTable) -> Iterator[Effect]:
        """Yield the effect of enforcing a policy now. --evictLimit is not applied."""
        pods = self._evicted(decision)
        flag = "" if self._evicting else " if --evict is set"
        yield Effect("podsEvicted", f"evict {named(pods)}{flag}", pods)

    def flags(self) -> EvictFields:
        """Return whether pods are evicted."""
        return EvictFields(evict=self._evicting)

    def _evicted(self, decision: Decision) -> list[str]:
        pods = self._cluster.running.pods_of(decision.policy.key)
        return sorted(map(str, evictable(decision, pods, self._cluster)))


def named(pods: Sequence[str]) -> str:
    """Return `2 pods (a, b)`; long lists are cut."""
    more = f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else ""
    return f"{counted(len(pods), 'pod')} ({', '.join(pods[:_NAMED])}{more})"

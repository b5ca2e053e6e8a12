"""Plans evictions: pods of a violated deschedule policy, rate-limited, and only if another node is feasible."""

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from dataclasses import dataclass
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
from plimsoll.text import counted

HOUR = 3600.0
MOST_PER_POD = 6
"""Evictions for a policy in an hour, per running pod of it: policies that move each other's pods end up here at the latest."""
_NAMED = 5
"""Pods that a message names; the others are counted."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """One pod to evict, with the reason."""

    policy: PolicyKey
    pod: Pod
    reason: str


@dataclass(frozen=True, slots=True)
class EvictionRate:
    """At most `limit` pods of one policy in `period` seconds."""

    period: float
    limit: int


class EvictFields(EnforcementFields):
    """Whether the evaluator evicts pods."""

    evict: bool


class PodsPlaced(Protocol):
    """Knows the pods that the readings do not include yet."""

    def crowded(self, decision: Decision, decisions: Decisions, pod: PlacedPod) -> Mask:
        """Return the nodes that would violate a policy with a pod more, shape (nodes,)."""
        ...

    def is_new(self, uid: str, decision: Decision, decisions: Decisions) -> bool:
        """Return whether the readings do not include a pod yet."""
        ...


def plan(
    decisions: Decisions,
    running: PodsByPolicy,
    feasible_nodes: FeasibleNodes,
    recent: Mapping[PolicyKey, tuple[float, ...]],
    *,
    rate: EvictionRate,
    now: float,
    may_evict: Callable[[PolicyKey, str], bool] = lambda _policy, _node: True,
    leaving: Set[str] = frozenset(),
    placed: PodsPlaced | None = None,
    guard: Guard = UNGUARDED,
) -> Iterator[Eviction | None]:
    """Yield the evictions due at `now`, and None after each policy, which can take milliseconds.

    `recent` has the times of each policy's recent evictions (seconds). `may_evict` returns whether a policy may evict from a
    node, within the limit of nodes; nodes in `leaving` are about to be drained and are no alternatives. Pods are sorted by name, so that equal states
    give equal plans. A pod without another node that its policy and its constraints allow stays: evicting it would
    only make it Pending. So does one that would make all of these violate the policy, with the pods on their way there, and
    one that the readings do not include yet. In an hour, at most MOST_PER_POD times its pods are evicted for a policy.
    `guard` takes what the planning of one policy raises.
    """
    for key, decision in decisions.enforced.items():
        pods = running.pods_of(key)
        allowance = rate.limit - sum(1 for at in recent.get(key, ()) if now - at < rate.period)
        hour = sum(1 for at in recent.get(key, ()) if now - at < HOUR)
        allowance = min(allowance, MOST_PER_POD * len(pods) - hour)
        if not pods or allowance <= 0 or not decision.deschedule:
            continue
        find = partial(
            _candidates, decision, decisions, pods, feasible_nodes, may_evict, leaving, placed
        )
        none: list[Pod] = []
        found = (pod for pod in guard.attempt(str(key), find, none) if not guard.rest(str(pod)))
        for pod in heapq.nsmallest(allowance, found, key=str):
            yield Eviction(key, pod, decision.deschedule[pod.spec.node_name])
        yield None


def _candidates(
    decision: Decision,
    decisions: Decisions,
    pods: Collection[Pod],
    feasible_nodes: FeasibleNodes,
    may_evict: Callable[[PolicyKey, str], bool],
    leaving: Set[str],
    placed: PodsPlaced | None,
) -> list[Pod]:
    """Return the pods that may be evicted for one policy, whatever the rate."""
    crowded = _crowded(decision, decisions, pods, placed)
    return [
        pod
        for pod in evictable(decision, pods, feasible_nodes, leaving, crowded)
        if may_evict(decision.policy.key, pod.spec.node_name)
        and not (placed and placed.is_new(pod.metadata.uid, decision, decisions))
    ]


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
    return frozenset(nodes.at(placed.crowded(decision, decisions, largest)))


def evictable(
    decision: Decision,
    pods: Collection[Pod],
    feasible_nodes: FeasibleNodes,
    leaving: Set[str] = frozenset(),
    crowded: Set[str] = frozenset(),
) -> list[Pod]:
    """Return the pods on violating nodes that have another node; complete unless `feasible_nodes` is behind."""
    if not pods or not decision.deschedule:
        return []
    alternatives = _Alternatives(decision, feasible_nodes, leaving | crowded)
    return [
        pod for pod in pods if pod.spec.node_name in decision.deschedule and alternatives.has(pod)
    ]


class _Alternatives:
    """Whether a policy allows a pod another feasible node; cached per set of placement constraints."""

    def __init__(
        self, decision: Decision, feasible_nodes: FeasibleNodes, leaving: Set[str]
    ) -> None:
        violating = (decision.deschedule.keys(), decision.dontschedule.keys())
        self._excluded: tuple[Set[str], ...] = (*violating, decision.unreported, leaving)
        self._feasible_nodes = feasible_nodes
        self._known: dict[int, bool] = {}

    def has(self, pod: Pod) -> bool:
        feasible = self._feasible_nodes.for_pod(pod)
        if (known := self._known.get(id(feasible))) is None:
            known = self._known[id(feasible)] = self._among(feasible)
        return known

    def _among(self, feasible: Set[str]) -> bool:
        descheduled, rejecting, unreported, leaving = self._excluded
        return any(
            node not in descheduled
            and node not in rejecting
            and node not in unreported
            and node not in leaving
            for node in feasible
        )


class EvictionEffects(Effects):
    """The pods to evict from violating nodes, whatever the rate. `evicting`: whether --evict is set."""

    def __init__(
        self, running: PodsByPolicy, feasible_nodes: FeasibleNodes, *, evicting: bool
    ) -> None:
        self._running = running
        self._feasible_nodes = feasible_nodes
        self._evicting = evicting

    def catching_up(self, decisions: Decisions) -> Iterator[None]:
        """Bring the evictable pods of observed policies up to date, in steps."""
        for decision in decisions.policies.values():
            if decision.policy.observed:
                self._evicted(decision)
                yield
        yield from self._feasible_nodes.catching_up()

    def effects(self, decision: Decision, _table: MetricTable) -> Iterator[Effect]:
        """Yield the effect of enforcing a policy now. --evictLimit is not applied."""
        pods = self._evicted(decision)
        flag = "" if self._evicting else " if --evict is set"
        yield Effect("podsEvicted", f"evict {_named(pods)}{flag}", pods)

    def flags(self) -> EvictFields:
        """Return whether pods are evicted."""
        return EvictFields(evict=self._evicting)

    def _evicted(self, decision: Decision) -> list[str]:
        pods = self._running.pods_of(decision.policy.key)
        return sorted(map(str, evictable(decision, pods, self._feasible_nodes)))


def _named(pods: list[str]) -> str:
    more = f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else ""
    return f"{counted(len(pods), 'pod')} ({', '.join(pods[:_NAMED])}{more})"

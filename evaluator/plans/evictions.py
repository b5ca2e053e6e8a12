"""Plans evictions: pods of a violated deschedule policy, rate-limited, and only if another node is feasible."""

import heapq
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from evaluator.cache.feasible_nodes import FeasibleNodes
from evaluator.cache.pods_by_policy import PodsByPolicy
from evaluator.model.names import PolicyKey
from evaluator.model.objects import Pod
from evaluator.policy.decide import Decision, Decisions


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


def plan(
    decisions: Decisions,
    running: PodsByPolicy,
    feasible_nodes: FeasibleNodes,
    recent: Mapping[PolicyKey, tuple[float, ...]],
    *,
    pace: EvictionRate,
    now: float,
) -> Iterator[Eviction | None]:
    """The evictions due at `now`, and None after those of a policy, which take milliseconds; given when each policy's recent ones were asked for (seconds).

    Pods are taken in order of their names, so that the same state gives the same plan. A pod without another node that
    its policy and its own constraints allow stays where it is: evicting it would only make it Pending.
    """
    for key, decision in decisions.policies.items():
        pods = running.of(key)
        turns = pace.limit - sum(1 for at in recent.get(key, ()) if now - at < pace.period)
        if not pods or turns <= 0 or not decision.deschedule:
            continue
        alternatives = _Alternatives(decision, feasible_nodes)
        leaving = [
            pod
            for pod in pods
            if pod.spec.node_name in decision.deschedule and alternatives.has(pod)
        ]
        for pod in heapq.nsmallest(turns, leaving, key=str):
            yield Eviction(key, pod, decision.deschedule[pod.spec.node_name])
        yield None


class _Alternatives:
    """Whether a policy allows a pod another feasible node; cached per set of placement constraints."""

    def __init__(self, decision: Decision, feasible_nodes: FeasibleNodes) -> None:
        violating = (decision.deschedule.keys(), decision.dontschedule.keys())
        self._barred: tuple[Set[str], ...] = (*violating, decision.unreported)
        self._places = feasible_nodes
        self._known: dict[int, bool] = {}

    def has(self, pod: Pod) -> bool:
        takers = self._places.takers(pod)
        if (known := self._known.get(id(takers))) is None:
            known = self._known[id(takers)] = self._among(takers)
        return known

    def _among(self, takers: Set[str]) -> bool:
        left, unwelcome, unreported = self._barred
        return any(
            node not in left and node not in unwelcome and node not in unreported for node in takers
        )

"""Limits on the metrics and rules of all policies together, divided by namespace, then by policy.

The least served namespace chooses next, and in it the least served policy (max-min fairness), so that many policies get no
more than few. The selection depends on the policies alone: all replicas make the same one, also after a restart.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_not
from types import MappingProxyType
from typing import TypeVar

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy, Strategy
from evaluator.core.readings.column import Column, unknown
from evaluator.core.readings.merged import Readings, ReadingsView
from plimsoll.text import counted

T = TypeVar("T")

_NAMED = 3
"""Namespaces that a message names; the others are counted."""


@dataclass(slots=True)
class Share:
    """What is left of a limit, and how many units each namespace uses; `quota`: units of one namespace at most."""

    free: int
    quota: int | None = None
    used: Counter[str] = field(default_factory=Counter)
    full: set[str] = field(default_factory=set)
    """Namespaces that lost something to their quota."""

    def claim(self, namespace: str, amount: int) -> bool:
        """Take units for a namespace; return whether that many are left for it."""
        if self.quota is not None and self.used[namespace] + amount > self.quota:
            self.full.add(namespace)
            return False
        if amount > self.free:
            return False
        self.free -= amount
        self.used[namespace] += amount
        return True

    def users(self) -> str:
        """Return which namespaces use most, such as `shop 12, ops 3`."""
        ordered = sorted(self.used.items(), key=lambda item: (-item[1], item[0]))
        named = ", ".join(f"{namespace} {amount}" for namespace, amount in ordered[:_NAMED])
        more = len(ordered) - _NAMED
        others = sum(amount for _, amount in ordered[_NAMED:])
        return f"{named} and {more} more namespaces {others}" if more > 0 else named


def divide(
    claims: Mapping[PolicyKey, Sequence[T]], cost: Callable[[T], int], share: Share
) -> Iterator[tuple[PolicyKey, T]]:
    """Yield the claims that are granted, in each policy's own order; one that does not fit is skipped.

    `cost` returns the units of a claim, when it is the claim's turn: after all earlier grants were yielded.
    """
    policies: dict[str, list[tuple[int, int, PolicyKey, int]]] = {}
    for key, own in claims.items():
        if own:
            policies.setdefault(key.namespace, []).append((0, len(own), key, 0))
    for queue in policies.values():
        heapq.heapify(queue)
    namespaces = [(share.used[namespace], namespace) for namespace in policies]
    heapq.heapify(namespaces)
    while namespaces and share.free > 0:
        _, namespace = heapq.heappop(namespaces)
        queue = policies[namespace]
        used, size, key, position = heapq.heappop(queue)
        claim = claims[key][position]
        amount = cost(claim)
        if share.claim(namespace, amount):
            used += amount
            yield key, claim
        if position + 1 < size:
            heapq.heappush(queue, (used, size, key, position + 1))
        if queue:
            heapq.heappush(namespaces, (share.used[namespace], namespace))


MOST_METRICS = 1000
"""A reading takes about 40 bytes: 1,000 metrics of 5,000 nodes are 200 MB."""

Named = Mapping[PolicyKey, frozenset[str]]
"""The metrics that each policy names."""


@dataclass(frozen=True, slots=True)
class MetricLimit:
    """The metrics to request from sources, and those left out, with the reason of each."""

    requested: frozenset[str]
    left_out: Mapping[str, str] = field(default_factory=dict)


def limit_metrics(
    named: Named,
    most: int,
    *,
    observed: Named = MappingProxyType({}),
    always: frozenset[str] = frozenset(),
    served: frozenset[str] = frozenset(),
    quota: int | None = None,
) -> MetricLimit:
    """Select at most `most` of the metrics that policies name; metrics in `always` do not count.

    They are divided by namespace first, then by policy: a metric counts for the first that claims it. Policies that are
    only `observed` get what is left, and last come the metrics that are only `served`. `quota`: metrics of one namespace.
    """
    union = always.union(served, *named.values(), *observed.values())
    if len(union) <= most + len(always) and _within(quota, named, observed):
        return MetricLimit(union)
    requested, share = set(always), Share(most, quota)
    for claims in (named, observed):
        ordered = {key: sorted(metrics) for key, metrics in claims.items()}
        for _, metric in divide(ordered, lambda metric: metric not in requested, share):
            requested.add(metric)
    new = [name for name in sorted(served) if name not in requested]
    requested.update(new[: share.free])
    reasons = _reasons(union - requested, {**observed, **named}, share, most)
    return MetricLimit(frozenset(requested), reasons)


def _within(quota: int | None, *named: Named) -> bool:
    """Return whether no namespace can exceed its quota."""
    if quota is None:
        return True
    used: dict[str, set[str]] = {}
    for key, metrics in itertools.chain.from_iterable(policies.items() for policies in named):
        used.setdefault(key.namespace, set()).update(metrics)
    return all(len(metrics) <= quota for metrics in used.values())


def _reasons(left_out: Collection[str], named: Named, share: Share, most: int) -> dict[str, str]:
    """Return why each metric was left out, and the namespaces that use the limit."""
    shared = f"not requested: policies name more than --maxMetrics={most}, of which namespaces use {share.users()}"
    reasons = dict.fromkeys(left_out, shared)
    for key in sorted(named, reverse=True):
        if key.namespace in share.full:
            own = f"not requested: namespace {key.namespace} uses its --maxNamespaceMetrics={share.quota}"
            reasons.update(dict.fromkeys(named[key] & reasons.keys(), own))
    return reasons


class LimitedReadings(ReadingsView):
    """Readings without the metrics over the limit: their columns have a fault, and are not reported as pending."""

    def __init__(self, readings: Readings, left_out: Mapping[str, str]) -> None:
        super().__init__(readings)
        self._left_out = left_out

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """Return one metric over some nodes at `now`."""
        if (reason := self._left_out.get(metric)) is not None:
            return unknown(len(nodes), unreported=False, fault=reason)
        return self._readings.column(metric, nodes, now)

    def _over(self, readings: Readings) -> Readings:
        return LimitedReadings(readings, self._left_out)


MOST_RULES = 10_000
"""A rule takes 5 to 15 bytes per node: 10,000 rules over 5,000 nodes are 250 to 700 MB."""


class RuleLimit:
    """The policies with so many rules at most, over all of them."""

    def __init__(self, most: int = MOST_RULES, quota: int | None = None) -> None:
        """`quota`: rules of one namespace at most."""
        self._most = most
        self._quota = quota
        self._given: Sequence[Policy] = ()
        self._limited: Sequence[Policy] = ()
        self.left_out = 0
        """The number of rules that are not evaluated."""

    def limited(self, policies: Sequence[Policy]) -> Sequence[Policy]:
        """Return the policies without the strategies over the limit; their problems name these.

        Enforced policies go first; the limit is divided by namespace first, then by policy, the smallest strategies first.
        A strategy is left out as a whole: with some of its rules it would match other nodes than its author intended.
        """
        if len(policies) != len(self._given) or any(map(is_not, policies, self._given)):
            self._given, self._limited = policies, self._limit(policies)
        return self._limited

    def _limit(self, policies: Sequence[Policy]) -> Sequence[Policy]:
        self.left_out = 0
        if sum(map(_rules, policies)) <= self._most and self._within_quota(policies):
            return policies
        share = Share(self._most, self._quota)
        kept: dict[PolicyKey, set[StrategyName]] = {policy.key: set() for policy in policies}
        for observed in (False, True):
            claims = {
                policy.key: sorted(policy.strategies.items(), key=_size)
                for policy in policies
                if policy.observed is observed
            }
            for key, (name, _) in divide(claims, lambda claim: len(claim[1].rules), share):
                kept[key].add(name)
        limited = [self._with_only(policy, kept[policy.key], share) for policy in policies]
        self.left_out = sum(map(_rules, policies)) - sum(map(_rules, limited))
        return limited

    def _within_quota(self, policies: Sequence[Policy]) -> bool:
        used = Counter[str]()
        for policy in policies:
            used[policy.key.namespace] += _rules(policy)
        return self._quota is None or all(amount <= self._quota for amount in used.values())

    def _with_only(self, policy: Policy, kept: Collection[StrategyName], share: Share) -> Policy:
        lost = [
            strategy
            for strategy in policy.strategies
            if strategy not in kept and policy.strategies[strategy].rules
        ]
        if not lost:
            return policy
        namespace = policy.key.namespace
        if namespace in share.full:
            limit = f"--maxNamespaceRules={share.quota} leaves its namespace, which uses {share.used[namespace]}"
        else:
            limit = f"--maxRules={self._most} leaves, of which namespaces use {share.users()}"
        problems = (
            f"{name}: it has {counted(len(policy.strategies[name].rules), 'rule')}, more than {limit}: the strategy is not enforced"
            for name in lost
        )
        strategies = {name: s for name, s in policy.strategies.items() if name not in lost}
        return replace(policy, strategies=strategies, problems=(*policy.problems, *problems))


def _rules(policy: Policy) -> int:
    return sum(len(strategy.rules) for strategy in policy.strategies.values())


def _size(strategy: tuple[StrategyName, Strategy]) -> tuple[int, str]:
    return len(strategy[1].rules), strategy[0]

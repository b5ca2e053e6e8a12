"""Limits the number of rules evaluated, over all policies together.

The selection depends on the policies alone, so all replicas make the same one, also after a restart.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from operator import is_not

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.limits.fair_share import Share, divide
from evaluator.core.policy.types import Policy, Strategy, StrategyName
from plimsoll.text import counted

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
            for key, (name, _) in divide(claims, lambda one: len(one[1].rules), share):
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

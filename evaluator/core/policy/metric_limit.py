"""Limits the number of metrics requested and of rules evaluated, over all policies together.

The selection depends on the policies alone, so all replicas make the same one, also after a restart.
"""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_not

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy, Strategy
from evaluator.core.readings.column import Column, unknown
from evaluator.core.readings.merged import Readings

MOST_METRICS = 1000
"""A reading takes about 40 bytes: 1,000 metrics of 5,000 nodes are 200 MB."""

MOST_RULES = 10_000
"""A rule takes 5 to 15 bytes per node: 10,000 rules over 5,000 nodes are 250 to 700 MB."""


@dataclass(frozen=True, slots=True)
class MetricLimit:
    """The metrics to request from sources, and those left out."""

    requested: frozenset[str]
    left_out: frozenset[str] = frozenset()


def limit_metrics(
    named: Collection[frozenset[str]],
    most: int,
    *,
    observed: Collection[frozenset[str]] = (),
    always: frozenset[str] = frozenset(),
    served: frozenset[str] = frozenset(),
) -> MetricLimit:
    """Select at most `most` of the metrics that policies name; metrics in `always` do not count.

    Policies with the fewest metrics go first, so a policy with thousands displaces only its own; then those that are only
    `observed`, and last the metrics that are only `served`.
    """
    union = always.union(served, *named, *observed)
    most += len(always)
    if len(union) <= most:
        return MetricLimit(union)
    requested = set(always)
    for names in [*_by_size(named), *_by_size(observed), sorted(served)]:
        new = [name for name in names if name not in requested]
        requested.update(new[: most - len(requested)])
    return MetricLimit(frozenset(requested), union - requested)


def _by_size(named: Iterable[frozenset[str]]) -> list[list[str]]:
    return sorted(map(sorted, named), key=lambda names: (len(names), names))


class RuleLimit:
    """The policies with so many rules at most, over all of them."""

    def __init__(self, most: int = MOST_RULES) -> None:
        self._most = most
        self._given: Sequence[Policy] = ()
        self._limited: Sequence[Policy] = ()
        self.left_out = 0
        """The number of rules that are not evaluated."""

    def limited(self, policies: Sequence[Policy]) -> Sequence[Policy]:
        """Return the policies without the strategies over the limit; their problems name these.

        Enforced policies go first, then those with the fewest rules, then the smallest strategies. A strategy is left out
        as a whole: with some of its rules it would match other nodes than its author intended.
        """
        if len(policies) != len(self._given) or any(map(is_not, policies, self._given)):
            self._given, self._limited = policies, self._limit(policies)
        return self._limited

    def _limit(self, policies: Sequence[Policy]) -> Sequence[Policy]:
        self.left_out = 0
        if sum(map(_rules, policies)) <= self._most:
            return policies
        free, limited = self._most, list[Policy]()
        for policy in sorted(policies, key=_order):
            kept = {}
            for name, strategy in sorted(policy.strategies.items(), key=_size):
                if len(strategy.rules) <= free:
                    kept[name] = strategy
                    free -= len(strategy.rules)
            limited.append(self._with_only(policy, kept))
            self.left_out += _rules(policy) - _rules(limited[-1])
        return limited

    def _with_only(self, policy: Policy, kept: Mapping[StrategyName, Strategy]) -> Policy:
        if len(kept) == len(policy.strategies):
            return policy
        problems = (
            f"{name}: its {len(strategy.rules)} rules are more than --maxRules={self._most} leaves, a limit on the rules of all "
            "policies together: the strategy is not enforced"
            for name, strategy in policy.strategies.items()
            if name not in kept
        )
        strategies = {name: s for name, s in policy.strategies.items() if name in kept}
        return replace(policy, strategies=strategies, problems=(*policy.problems, *problems))


def _rules(policy: Policy) -> int:
    return sum(len(strategy.rules) for strategy in policy.strategies.values())


def _order(policy: Policy) -> tuple[bool, int, PolicyKey]:
    return policy.observed, _rules(policy), policy.key


def _size(strategy: tuple[StrategyName, Strategy]) -> tuple[int, str]:
    return len(strategy[1].rules), strategy[0]


class LimitedReadings:
    """Readings without the metrics over the limit: their columns have a fault, and are not reported as pending."""

    def __init__(self, readings: Readings, left_out: Collection[str], most: int) -> None:
        self._readings = readings
        self._left_out = left_out
        self._most = most
        self._fault = f"not requested: policies name more than --maxMetrics={most}"

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """Return one metric over some nodes at `now`."""
        if metric in self._left_out:
            return unknown(len(nodes), unreported=False, fault=self._fault)
        return self._readings.column(metric, nodes, now)

    @contextlib.contextmanager
    def snapshot(self, nodes: Sequence[str]) -> Iterator["LimitedReadings"]:
        """Yield the readings of one moment."""
        with self._readings.snapshot(nodes) as readings:
            yield LimitedReadings(readings, self._left_out, self._most)

    def next_expiry(self, now: float) -> float:
        """Return when a column changes without new input (seconds)."""
        return self._readings.next_expiry(now)

    def resume(self, since: float, now: float) -> None:
        """Record that no reports were received from `since` to `now`."""
        self._readings.resume(since, now)

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Keep only these metrics."""
        self._readings.subscribe(metrics)

    def prune(self, nodes: Collection[str], now: float) -> None:
        """Drop nodes other than these."""
        self._readings.prune(nodes, now)

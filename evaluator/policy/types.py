"""A policy as typed values: strategies, rules, operators and labels. `parse` makes them from TASPolicy objects."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from evaluator.model.names import PolicyKey
from evaluator.policy import rule_options
from evaluator.policy.rule_options import PLAIN, RuleOptions
from evaluator.scoring import derived

VIOLATING = "violating"


class Operator(StrEnum):
    """How a reading is compared with a rule's target; all are strict."""

    LESS_THAN = "LessThan"
    GREATER_THAN = "GreaterThan"
    EQUALS = "Equals"


class StrategyName(StrEnum):
    """The four parts a policy can have."""

    DONTSCHEDULE = "dontschedule"
    SCHEDULEONMETRIC = "scheduleonmetric"
    DESCHEDULE = "deschedule"
    LABELING = "labeling"


PER_POD_STRATEGIES = (StrategyName.DONTSCHEDULE, StrategyName.SCHEDULEONMETRIC)
"""The strategies that kube-scheduler asks about, for one pod at a time."""


@dataclass(frozen=True, slots=True)
class Label:
    """A node label that a labeling rule asks for, with its full key."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One comparison: the rule is broken where the node's reading compares true with the target."""

    metric: str
    operator: Operator
    target: float
    labels: tuple[Label, ...] = ()
    options: RuleOptions = PLAIN
    written: str = ""
    """The target as its author wrote it, where that is more than the number: 1500m."""

    def __str__(self) -> str:
        return f"{self.metric} {self.operator} {self.written or rule_options.spelled(self.target)}"


@dataclass(frozen=True, slots=True)
class Strategy:
    """Rules that are enforced together.

    `all_of` asks for every rule to be broken at once. `impossible` says that one of those could not be understood, so
    that "all" can never be: dropping the rule instead would make the strategy fire on less than its author asked for.
    """

    rules: tuple[Rule, ...]
    all_of: bool = False
    impossible: bool = False


@dataclass(frozen=True)
class Policy:
    """A policy as the evaluator works with it; only strategies that can be enforced are in it."""

    key: PolicyKey
    strategies: Mapping[StrategyName, Strategy] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    uid: str = ""
    generation: int = 0
    status: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What was last said about it, by whichever replica: no part of what it asks for."""

    @cached_property
    def metrics(self) -> frozenset[str]:
        """The names of all metrics the policy looks at."""
        return frozenset(
            rule.metric for strategy in self.strategies.values() for rule in strategy.rules
        )

    @cached_property
    def per_pod_metrics(self) -> frozenset[str]:
        """The quantities that rules name which are asked about when a pod is placed: their values are for that pod."""
        strategies = [self.strategies.get(name) for name in PER_POD_STRATEGIES]
        return derived.named(
            {rule.metric for strategy in strategies if strategy for rule in strategy.rules}
        )

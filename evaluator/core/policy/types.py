"""Typed policies: strategies, rules, operators and labels. `parse` creates them from TASPolicy objects."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy import rule_options
from evaluator.core.policy.actions.types import LABELS_ONLY, Actions
from evaluator.core.policy.rule_options import PLAIN, RuleOptions
from evaluator.features.scorers import derived

VIOLATING = "violating"


class Operator(StrEnum):
    """How a reading is compared with a rule's target; all comparisons are strict."""

    LESS_THAN = "LessThan"
    GREATER_THAN = "GreaterThan"
    EQUALS = "Equals"


class StrategyName(StrEnum):
    """The four strategies of a policy."""

    DONTSCHEDULE = "dontschedule"
    SCHEDULEONMETRIC = "scheduleonmetric"
    DESCHEDULE = "deschedule"
    LABELING = "labeling"


PER_POD_STRATEGIES = (StrategyName.DONTSCHEDULE, StrategyName.SCHEDULEONMETRIC)
"""The strategies that are evaluated per pod, in requests of kube-scheduler."""


@dataclass(frozen=True, slots=True)
class Label:
    """A node label of a labeling rule, with its full key."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One comparison: the rule matches where it is true for the node's reading."""

    metric: str
    operator: Operator
    target: float
    labels: tuple[Label, ...] = ()
    options: RuleOptions = PLAIN
    written: str = ""
    """The target's text if it is not a plain number: 1500m."""

    def __str__(self) -> str:
        return (
            f"{self.metric} {self.operator} {self.written or rule_options.formatted(self.target)}"
        )


@dataclass(frozen=True, slots=True)
class Strategy:
    """Rules that are enforced together.

    `all_of`: all rules must be violated at once. `impossible`: one of them was invalid, so the strategy is never
    violated; dropping the rule would make it match more nodes than intended.
    """

    rules: tuple[Rule, ...]
    all_of: bool = False
    impossible: bool = False


@dataclass(frozen=True)
class Policy:
    """A policy; contains only the strategies that can be enforced.

    An observed policy is decided and shown, but kube-scheduler gets no answer from it, and it sets no label and evicts no pod.
    """

    key: PolicyKey
    strategies: Mapping[StrategyName, Strategy] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """Valid parts that are probably not intended."""
    uid: str = ""
    generation: int = 0
    actions: Actions = LABELS_ONLY
    status: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The status last written by any replica; not part of the specification."""
    observed_by: str = ""
    """Why the policy is only observed, such as `--observe`; empty if it is enforced."""

    @property
    def observed(self) -> bool:
        """Whether the policy is only observed, not enforced."""
        return bool(self.observed_by)

    @cached_property
    def metrics(self) -> frozenset[str]:
        """The metrics of all rules."""
        return frozenset(
            rule.metric for strategy in self.strategies.values() for rule in strategy.rules
        )

    @cached_property
    def per_pod_metrics(self) -> frozenset[str]:
        """The derived metrics that are evaluated for each pod."""
        strategies = [self.strategies.get(name) for name in PER_POD_STRATEGIES]
        return derived.named(
            {rule.metric for strategy in strategies if strategy for rule in strategy.rules}
        )

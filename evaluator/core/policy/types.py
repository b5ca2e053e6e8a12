"""Typed policies: strategies, rules and their options, operators and labels. `parse` creates them from TASPolicy objects."""

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeVar

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.strategies import PER_POD, StrategyName
from evaluator.core.readings.peer_metrics import PeerMetric, base_metric, peer_metric
from plimsoll import quantity
from plimsoll.durations import duration
from plimsoll.steps import Steps
from plimsoll.text import shown

VIOLATING = "violating"


class WhenMissing(StrEnum):
    """How a rule treats a node without a usable reading."""

    IGNORE = "ignore"
    VIOLATE = "violate"


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """Durations of a rule, and its treatment of missing readings: extensions that Telemetry Aware Scheduling ignores.

    `for_seconds`: how long the comparison must be true before the rule is violated. `clear_after`: how long it must
    be false before the violation ends. `when_missing`: whether a missing reading counts as a match.
    """

    for_seconds: float = 0.0
    clear_after: float = 0.0
    when_missing: WhenMissing = WhenMissing.IGNORE

    @property
    def timed(self) -> bool:
        """Whether the result depends on earlier readings."""
        return self.for_seconds > 0 or self.clear_after > 0


PLAIN = RuleOptions()
"""Telemetry Aware Scheduling's behaviour: no durations, and missing readings are ignored."""


class Operator(StrEnum):
    """How a reading is compared with a rule's target; all comparisons are strict."""

    LESS_THAN = "LessThan"
    GREATER_THAN = "GreaterThan"
    EQUALS = "Equals"


class RankBy(StrEnum):
    """How scheduleonmetric scores nodes: the annotation `plimsoll.io/ranking`."""

    RANK = "rank"
    VALUE = "value"
    HEADROOM = "headroom"


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
    derived: bool = False
    """Whether a feature computes the metric or its base (`Vocabulary.derived`, `Vocabulary.of_policies`)."""
    per_pod: bool = False
    """Whether it does so for a node and a pod."""
    shown: str = ""
    """The metric whose values pages show instead, of a metric that they conceal; empty for others."""

    @property
    def base(self) -> str:
        """The metric whose readings decide: of a peer metric, its base."""
        return base_metric(self.metric)

    @property
    def comparison(self) -> tuple[str, Operator, float]:
        """What is compared; rules of one comparison match on the same nodes."""
        return self.metric, self.operator, self.target

    @property
    def peers(self) -> PeerMetric | None:
        """The peer metric that is compared; None if it is a reading itself."""
        return peer_metric(self.metric)

    def __str__(self) -> str:
        return f"{self.metric} {self.operator} {self.written or formatted(self.target)}"


@dataclass(frozen=True, slots=True)
class Strategy:
    """Rules that are enforced together.

    `all_of`: all rules must be violated at once. `impossible`: one of them was invalid, so the strategy is never
    violated; dropping the rule would make it match more nodes than intended.
    """

    rules: tuple[Rule, ...]
    all_of: bool = False
    impossible: bool = False


LABEL = "label"
"""The action that needs no feature: labels are part of the decisions."""


@dataclass(frozen=True, slots=True)
class ActionPart:
    """What one feature read from a policy's annotations. This class itself has no actions.

    `kinds`: the feature's actions that the policy takes, without those that an error disables.
    """

    kinds: frozenset[str] = frozenset()

    def records(self, policy: "Policy", strategy: StrategyName) -> Iterator[tuple[str, str]]:
        """Yield the records of nodes that violated a strategy, with their values, as `Wired.records` names them."""
        yield from ()

    def conditions(self) -> Iterator[str]:
        """Yield the types of the node conditions that the policy sets."""
        yield from ()

    def described(self, policy: "Policy") -> Iterator[str]:
        """Yield a sentence for each action, for `check`."""
        yield from ()

    def advice(self, policy: "Policy") -> Iterator[str]:
        """Yield a warning for each valid part that the policy's author probably did not intend."""
        yield from ()


Part = TypeVar("Part", bound=ActionPart)


@dataclass(frozen=True, slots=True)
class Actions:
    """The actions of one policy. `kinds`: their names; `parts`: what features read about theirs."""

    kinds: frozenset[str] = frozenset({LABEL})
    parts: tuple[ActionPart, ...] = ()

    def part(self, kind: type[Part]) -> Part:
        """Return the part of a feature; an empty one if the policy was parsed without the feature."""
        return next((part for part in self.parts if isinstance(part, kind)), kind())


LABELS_ONLY = Actions()
"""Telemetry Aware Scheduling's behaviour."""


@dataclass(frozen=True)
class Policy:
    """A policy; contains only the strategies that can be enforced.

    An observed policy is decided and shown, but kube-scheduler gets no answer from it, and nothing is done to nodes and pods.
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
    rank_by: RankBy = RankBy.RANK
    counts_placed: bool = True
    """Whether pods placed since the readings count where a pod is scheduled."""
    observed_by: str = ""
    """Why the policy is only observed, such as `--observe`; empty if it is enforced."""
    annotations: Mapping[str, Any] = field(default_factory=dict)
    """The annotations in force, by key."""
    misspelt: bool = False
    """Whether an annotation or label resembles a declared annotation, so that those of before the mistake are in force."""
    written: "Policy | None" = field(default=None, compare=False)
    """The policy as its author wrote it, of one that a stop makes observed."""

    def observed_while(self, why: str) -> "Policy":
        """Return the policy as only observed because of a stop; as written if `why` is empty, or it is observed anyway."""
        if self.written is not None and self.observed_by == why:
            return self
        written = self.written or self
        if not why or written.observed_by:
            return written
        policy = copy.copy(written)
        vars(policy).update(observed_by=why, written=written)
        return policy

    def with_status(self, status: Mapping[str, Any]) -> "Policy":
        """Return the policy with another status; all other parts are the same objects, and what was computed is kept."""
        policy = copy.copy(self)
        vars(policy)["status"] = status
        return policy

    def specified_as(self, other: "Policy") -> bool:
        """Return whether all but the status is the same, as far as identities show."""
        if self is other:
            return True
        return (
            self.strategies is other.strategies
            and self.actions is other.actions
            and self.problems is other.problems
            and self.warnings is other.warnings
            and (self.uid, self.generation) == (other.uid, other.generation)
            and (self.rank_by, self.counts_placed) == (other.rank_by, other.counts_placed)
            and self.observed_by == other.observed_by
        )

    @property
    def observed(self) -> bool:
        """Whether the policy is only observed, not enforced."""
        return bool(self.observed_by)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of all strategies."""
        return tuple(rule for strategy in self.strategies.values() for rule in strategy.rules)

    @cached_property
    def metrics(self) -> frozenset[str]:
        """The metrics that rules compare: columns of the decisions."""
        return frozenset(rule.metric for rule in self.rules)

    @cached_property
    def strict_metrics(self) -> frozenset[str]:
        """The metrics whose missing reading violates some rule."""
        violate = WhenMissing.VIOLATE
        return frozenset(r.metric for r in self.rules if r.options.when_missing is violate)

    @cached_property
    def inputs(self) -> frozenset[object]:
        """What its decision is made from: metrics, and the comparisons of rules that do not rank (`Rule.comparison`)."""
        compared = (
            rule.comparison
            for name, strategy in self.strategies.items()
            if not name.row.ranks
            for rule in strategy.rules
        )
        return frozenset((*self.metrics, *self.base_metrics, *compared))

    @cached_property
    def contested_labels(self) -> bool:
        """Whether rules name different values of a label: then their readings decide which one a node gets."""
        labels = {label for rule in self.rules for label in rule.labels}
        return len({label.key for label in labels}) < len(labels)

    @cached_property
    def base_metrics(self) -> frozenset[str]:
        """The metrics that they are computed from: of peer metrics their bases, else the metrics themselves."""
        return frozenset(rule.base for rule in self.rules)

    @cached_property
    def peer_metrics(self) -> frozenset[str]:
        """The peer metrics among `metrics`."""
        return frozenset(rule.metric for rule in self.rules if rule.peers)

    @cached_property
    def derived_metrics(self) -> frozenset[str]:
        """The metrics among `base_metrics` that features compute."""
        return frozenset(rule.base for rule in self.rules if rule.derived)

    @cached_property
    def measured_metrics(self) -> frozenset[str]:
        """The metrics that sources of readings provide."""
        return self.base_metrics - self.derived_metrics

    @cached_property
    def shown(self) -> Mapping[str, str]:
        """For each of `metrics`, the one whose values pages show."""
        return {rule.metric: rule.shown or rule.metric for rule in self.rules}

    @cached_property
    def per_pod_metrics(self) -> frozenset[str]:
        """The derived metrics that are evaluated for each pod; how nodes compare with peers does not depend on it."""
        strategies = [self.strategies.get(name) for name in PER_POD]
        rules = (rule for strategy in strategies if strategy for rule in strategy.rules)
        return frozenset(rule.metric for rule in rules if rule.per_pod and not rule.peers)


def comparisons(policies: Iterable[Policy]) -> Steps[Mapping[str, Sequence[Rule]]]:
    """Return the different comparisons by metric, each by one of its rules, and metrics that only rank without any.

    Comparing a column with all its targets while it is in the CPU cache is several times as fast. Derived metrics come
    first: their snapshot is taken when the first of them is read. A base precedes its peer metrics.
    """
    found: dict[str, dict[object, Rule]] = {}
    derived = set[str]()
    for policy in policies:
        derived |= policy.derived_metrics
        for name, strategy in policy.strategies.items():
            for rule in strategy.rules:
                found.setdefault(rule.base, {})
                rules = found.setdefault(rule.metric, {})
                if not name.row.ranks:
                    rules.setdefault(rule.comparison, rule)
        yield
    ordered = sorted(found, key=lambda metric: (metric not in derived, metric))
    return {metric: tuple(found[metric].values()) for metric in ordered}


def parse_options(body: Mapping[str, Any], common: RuleOptions) -> RuleOptions:
    """Return the options of a rule or strategy; absent ones are taken from `common`, those of its strategy. Raises ValueError."""
    return RuleOptions(
        _seconds(body, "for", common.for_seconds),
        _seconds(body, "clearAfter", common.clear_after),
        _when_missing(body.get("whenMissing"), common.when_missing),
    )


def _seconds(body: Mapping[str, Any], name: str, default: float) -> float:
    value = body.get(name)
    if value is None:
        return default
    try:
        if not isinstance(value, str):
            raise ValueError(
                f"not a duration: {shown(value)} (write it like 30s or 1m30s, in quotes)"
            )
        return duration(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _when_missing(value: object, default: WhenMissing) -> WhenMissing:
    if value is None:
        return default
    if not isinstance(value, str) or value not in tuple(WhenMissing):
        raise ValueError(f"whenMissing {shown(value)} is neither ignore nor violate")
    return WhenMissing(value)


def parse_target(value: object) -> float:
    """Return the number of a target: a number, or a quantity as text; 0 if absent. Raises ValueError."""
    match value:
        case None:
            return 0
        case str():
            return quantity.parse(value)
        case int() | float() if not isinstance(value, bool) and _finite(value):
            return value
        case _:
            raise ValueError("neither a number nor a quantity")


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no double can hold
        return False


def formatted(value: float) -> str:
    """Return a number in its shortest form: 3, not 3.0."""
    return str(int(value)) if abs(value) < 1e16 and value == int(value) else str(value)

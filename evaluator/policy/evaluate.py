"""Rules over columns of readings: which nodes break which rule, by what they read or by having no reading."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import assert_never

import numpy as np
import numpy.ma
import numpy.typing as npt

from evaluator.model.node_index import NodeIndex, NodeMask, Positions, alike, union
from evaluator.policy import hints
from evaluator.policy.reductions import Use
from evaluator.policy.rule_options import WhenMissing
from evaluator.policy.types import Operator, Rule, Strategy
from evaluator.readings.store import NEVER, Bools, Column, Counts, Floats
from plimsoll.text import counted


class MetricColumn:
    """One column as rules see it, worked out once for all of them.

    `values` are NaN where no rule may look. `lacking` are the nodes where that is so, `awaiting` whether a first word is
    still to be expected of any node.
    """

    def __init__(
        self, metric: str, readings: Column, nodes: NodeIndex, before: "MetricColumn | None" = None
    ) -> None:
        self.metric = metric
        self.readings = readings
        self.usable = readings.usable
        self.unusable: NodeMask = NodeMask(nodes, ~self.usable).reuse(
            before.unusable if before else None
        )
        self.any_unreported = bool(readings.unreported.any())
        self._met: dict[tuple[Operator, float], Bools] = {}
        self._classes: dict[Operator, Positions] = {}

    @cached_property
    def values(self) -> Floats:
        """The readings that count."""
        if not self.unusable.count:
            return self.readings.values
        return np.where(self.usable, self.readings.values, np.nan)

    def matches(self, rule: Rule) -> Bools:
        """Per node, whether its reading compares true with a rule's target; not to be written to.

        Comparison is on doubles and strict, so it is exact for integers up to 2^53. NaN compares false with everything,
        which is what is wanted where there is no reading.
        """
        key = (rule.operator, rule.target)
        met = self._met.get(key)
        if met is None:
            met = self._met[key] = self._compare(*key)
        return met

    def _compare(self, operator: Operator, target: float) -> Bools:
        met: Bools
        match operator:
            case Operator.LESS_THAN:
                met = self.values < target
            case Operator.GREATER_THAN:
                met = self.values > target
            case Operator.EQUALS:
                met = self.values == target
            case _:
                assert_never(operator)
        return met

    def classes(self, operator: Operator) -> Positions:
        """Per node its class, the best first, of those whose readings are as good to a ranking; -1 without a reading.

        One more at the end, for the place -1 of who is no node. Not to be written to.
        """
        classes = self._classes.get(operator)
        if classes is None:
            costs = self.values[self.usable]
            if operator is Operator.GREATER_THAN:
                costs = -costs
            elif operator is Operator.EQUALS:  # no order: a node is as good as any other
                costs = np.zeros(costs.shape)
            classes = self._classes[operator] = np.full(len(self.usable) + 1, -1, dtype=np.intp)
            classes[:-1][self.usable] = np.unique(costs, return_inverse=True)[1]
        return classes

    @cached_property
    def _several(self) -> Counts | None:
        """The number of samples where it is more than one: such a reading is no value, and fires no rule."""
        several = (self.readings.samples > 1) & self.readings.fresh
        return np.where(several, self.readings.samples, 0) if several.any() else None

    @property
    def ambiguous(self) -> bool:
        """Whether some node has several samples."""
        return self._several is not None

    def ambiguity(self, uses: tuple[Use, ...]) -> str:
        """What there is to say of an ambiguous metric to a policy that uses it like this."""
        samples, nodes = self._several, self.unusable.nodes
        assert samples is not None
        worst = int(samples.argmax())
        return (
            f"metric {self.metric} has no single value on {np.count_nonzero(samples)} of {counted(len(nodes), 'node')}: "
            f"{samples[worst]} series on {nodes[worst]}; it counts as missing there: {self._remedy(uses)}"
        )

    def stable_problem(self, uses: tuple[Use, ...]) -> str:
        """The same in words that do not change with the readings."""
        return (
            f"metric {self.metric} has several series and so no single value: {self._remedy(uses)}"
        )

    def _remedy(self, uses: tuple[Use, ...]) -> str:
        assert self._several is not None
        source = self.readings.source_at(int(self._several.argmax()))
        return hints.aggregation_hint(self.metric, source, uses)

    @cached_property
    def fault(self) -> str:
        """What there is to say of a metric that no node has, if some source says why it has not got it."""
        found = self.readings
        if not found.fault or (found.unreported | (found.fresh & (found.samples > 0))).any():
            return ""
        return f"no source has metric {self.metric} ({found.fault})"

    @cached_property
    def never_reported(self) -> Bools:
        """Where there never was a reading."""
        never: Bools = self.readings.at == NEVER
        return never if never.any() else self.unusable.nodes.none

    @cached_property
    def missing(self) -> Bools:
        """Where there is no reading, and no first one is on its way."""
        return (
            self.unusable.mask & ~self.readings.unreported
            if self.any_unreported
            else self.unusable.mask
        )


@dataclass(frozen=True)
class MetricTable:
    """The nodes of the cluster in a fixed order, and a column of readings over them for every metric that policies name."""

    nodes: NodeIndex
    columns: Mapping[str, Column]
    prepared: dict[str, MetricColumn] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The columns as rules see them."""

    def __post_init__(self) -> None:
        if type(self.nodes) is not NodeIndex:
            object.__setattr__(self, "nodes", NodeIndex(self.nodes))

    def prepare(self, metric: str, before: "MetricTable") -> MetricColumn:
        """A column as rules see it, sharing with the view before what is the same."""
        readings, known = self.columns[metric], before.prepared.get(metric)
        column = self.prepared[metric] = MetricColumn(metric, readings, self.nodes, known)
        return column

    def column(self, metric: str) -> MetricColumn:
        """A column as rules see it."""
        column = self.prepared.get(metric)
        if column is None:
            column = self.prepared[metric] = MetricColumn(metric, self.columns[metric], self.nodes)
        return column

    def unreported(self, metrics: Iterable[str]) -> Bools:
        """Where a first word on any of these metrics is still to come; `nodes.none` itself if nowhere."""
        unreported = [
            s.readings.unreported for m in metrics if (s := self.column(m)).any_unreported
        ]
        return union(unreported, self.nodes)


@dataclass(frozen=True)
class Violations:
    """Per node, whether the strategy is violated, and per node and rule (in that order) which rules are violated.

    `missing` marks those that are violated because a reading is missing, `carried` those of which only a label of an
    earlier life tells. None of the four is to be written to.
    """

    violated: Bools
    per_rule: Bools
    missing: Bools
    from_previous_leader: Bools

    def same(self, other: "Violations") -> bool:
        """Whether the other, of the same strategy and nodes, says the same; `violated` follows from the rest."""
        return (
            alike(self.per_rule, other.per_rule)
            and alike(self.missing, other.missing)
            and alike(self.from_previous_leader, other.from_previous_leader)
        )

    def first(self) -> npt.NDArray[np.intp]:
        """Per violating node the number of its first violated rule, of those known by more than a label if there are any."""
        first = np.zeros(len(self.violated), np.int32)
        tables = [self.per_rule]
        if self.from_previous_leader.any():
            tables.append(self.per_rule & ~self.from_previous_leader)
        for table in tables:  # the last write counts; each rule's nodes lie in one piece
            for number in reversed(range(table.shape[1])):
                np.putmask(first, table[:, number], number)
        return first[self.violated].astype(np.intp)


def violations(strategy: Strategy, table: MetricTable) -> Violations:
    """Which nodes violate a strategy at this moment, whatever was before."""
    broken_by_reading, missing = match_rules(strategy, table)
    carried = table.nodes.no_rules(len(strategy.rules))
    return combine(strategy, broken_by_reading | missing, missing, carried)


def match_rules(strategy: Strategy, table: MetricTable) -> tuple[Bools, Bools]:
    """Per node and rule, whether the reading breaks it, and whether the lack of one does. Not to be written to."""
    nodes = table.nodes
    by_reading = stack_rules(
        [table.column(rule.metric).matches(rule) for rule in strategy.rules], nodes
    )
    strict = [rule.options.when_missing is WhenMissing.VIOLATE for rule in strategy.rules]
    if True not in strict:
        return by_reading, nodes.no_rules(len(strict))
    pairs = zip(strategy.rules, strict, strict=True)
    lacks = [table.column(rule.metric).missing if asked else nodes.none for rule, asked in pairs]
    return by_reading, stack_rules(lacks, nodes)


def stack_rules(masks: Sequence[Bools], nodes: NodeIndex) -> Bools:
    """Masks, one for each rule, as a table of nodes and rules in which each rule's lies in one piece."""
    if len(masks) == 1:
        return masks[0].reshape(-1, 1)
    if not masks:
        return np.zeros((len(nodes), 0), dtype=bool)
    return np.concatenate(masks).reshape(len(masks), -1).T


def combine(strategy: Strategy, per_rule: Bools, missing: Bools, carried: Bools) -> Violations:
    """Rules put together: any violated rule violates the strategy, or for `all_of` only all of them."""
    violated: Bools
    if strategy.all_of and (strategy.impossible or not strategy.rules):
        violated = np.zeros(len(per_rule), dtype=bool)
    elif len(strategy.rules) == 1:
        violated = per_rule[:, 0]
    else:
        violated = np.all(per_rule, axis=1) if strategy.all_of else np.any(per_rule, axis=1)
    return Violations(violated, per_rule, missing, carried)


def reason_prefix(policy: str) -> str:
    """How a reason of this policy begins, by which it is known again in a pod's condition."""
    return f"violating {policy}: "


def reasons(policy: str, strategy: Strategy, nodes: NodeIndex, found: Violations) -> dict[str, str]:
    """Violating node → why, in words that stay the same while the rule does.

    A reading must not be in it: kube-scheduler writes the text into the pod, and a pod that changes is retried at once.
    """
    names = nodes.at(found.violated)
    if not names:
        return {}
    texts, which = _texts(strategy, found)
    whole = [f"{reason_prefix(policy)}{text}" for text in texts]
    if len(whole) == 1:
        return dict.fromkeys(names, whole[0])
    return dict(zip(names, map(whole.__getitem__, which.tolist()), strict=True))


def _texts(strategy: Strategy, found: Violations) -> tuple[list[str], npt.NDArray[np.intp]]:
    """What there is to say of the violating nodes, and which of it of each."""
    if strategy.all_of:
        return _texts_of_all(strategy, found)
    first = found.first()
    lacks = found.missing[found.violated.nonzero()[0], first]
    if len(strategy.rules) == 1 and not lacks.any():
        return [_text(strategy.rules[0], missing=False)], first
    codes = 2 * first + lacks
    said = np.bincount(codes).nonzero()[0]
    texts = [_text(strategy.rules[code // 2], missing=code % 2 == 1) for code in said.tolist()]
    return texts, np.searchsorted(said, codes)


def _texts_of_all(strategy: Strategy, found: Violations) -> tuple[list[str], npt.NDArray[np.intp]]:
    patterns, which = np.unique(found.missing[found.violated], axis=0, return_inverse=True)
    texts = []
    for pattern in patterns.tolist():
        parts = zip(strategy.rules, pattern, strict=True)
        texts.append(" and ".join(_text(rule, missing=missing) for rule, missing in parts))
    return texts, which.reshape(-1)


def _text(rule: Rule, *, missing: bool) -> str:
    return f"{rule.metric} is missing" if missing else str(rule)

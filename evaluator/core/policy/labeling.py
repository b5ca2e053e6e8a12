"""labeling: sets labels on nodes that violate a rule.

Where several violated rules name one label, rules of one operator have a winner: the highest reading for GreaterThan,
the lowest for LessThan, and the first rule for Equals and for ties. Rules of different operators have none, so a node
where such rules name different values does not get the label.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from evaluator.core.model.arrays import Bools, Floats
from evaluator.core.model.node_index import NodeMask, Positions, union
from evaluator.core.policy.durations import StrategyState
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.label_sets import LabelAssignment, LabelAssignments
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import LABEL, VIOLATING, Operator, Policy, Strategy
from evaluator.core.policy.violations import Violations
from plimsoll.steps import Steps

_SHOWN = 5
"""Values of a label that a message lists."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A label that is not set on `nodes`: violated rules with different operators name different values for it there."""

    key: str
    values: tuple[str, ...]
    nodes: NodeMask

    @property
    def problem(self) -> str:
        """The text for the policy's status, with the number of nodes and one example."""
        where = (
            f"{self.nodes.count} of {len(self.nodes.nodes)} nodes, such as {self.nodes.names[0]}"
        )
        return f"{self._subject} on {where}: not set there"

    @property
    def stable_problem(self) -> str:
        """The same text without counts (for Events)."""
        return f"{self._subject} on the same node: not set there"

    @property
    def _subject(self) -> str:
        values = shown_values(self.values)
        return f"labeling: label {self.key}: violated rules with different operators name different values ({values})"


@dataclass(frozen=True, slots=True)
class LabelingResult:
    """The labels to set, and the labels left out because rules contradict each other. A key has one value per node."""

    assignments: tuple[LabelAssignment, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()


def shown_values(values: tuple[str, ...]) -> str:
    """Return the first few values of a label as a list for a message."""
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return ", ".join(values[:_SHOWN]) + more


def labels(
    policy: Policy, states: Mapping[StrategyName, StrategyState], table: MetricTable
) -> Steps[tuple[LabelAssignments, LabelingResult]]:
    """Return all labels that a policy wants on nodes, and what `labeling` contributes to them."""
    state, found = states.get(StrategyName.LABELING), LabelingResult()
    if LABEL not in policy.actions.kinds:
        return LabelAssignments(table.nodes, ()), found
    if state is not None:
        strategy = policy.strategies[StrategyName.LABELING]
        found = yield from assign_labels(strategy, table, state.found)
    marks: tuple[LabelAssignment, ...] = ()
    if marking := [state.found.violated for name, state in states.items() if name.row.marks]:
        marked = NodeMask(table.nodes, union(marking, table.nodes))
        marks = (LabelAssignment(policy.key.name, VIOLATING, marked),)
    return LabelAssignments(table.nodes, (*marks, *found.assignments)), found


def assign_labels(
    strategy: Strategy, table: MetricTable, found: Violations
) -> Steps[LabelingResult]:
    """Return the labels that violated rules set, in steps."""
    assignments: list[LabelAssignment] = []
    contradictions: list[Contradiction] = []
    for key, by_value in rules_by_label(strategy).items():
        if len(by_value) == 1:
            ((value, numbers),) = by_value.items()
            sets = found.violated
            if len(numbers) < len(strategy.rules):
                sets = sets & found.per_rule[:, numbers].any(axis=1)
            assignments.append(LabelAssignment(key, value, NodeMask(table.nodes, sets)))
            yield
            continue
        positions = found.violated.nonzero()[0]
        per_rule = found.per_rule[positions]
        contradicted = _contradicted(strategy, per_rule, by_value)
        if contradicted.any():
            nodes = _at(positions[contradicted], table)
            contradictions.append(Contradiction(key, tuple(by_value), nodes))
        yield
        numbers = sorted(number for same in by_value.values() for number in same)
        winner = yield from _winner(strategy, table, found.per_rule, numbers, positions)
        for value, same in by_value.items():
            assignments.append(
                LabelAssignment(
                    key, value, _at(positions[np.isin(winner, same) & ~contradicted], table)
                )
            )
            yield
    return LabelingResult(tuple(assignments), tuple(contradictions))


def _at(positions: Positions, table: MetricTable) -> NodeMask:
    mask = np.zeros(len(table.nodes), dtype=bool)
    mask[positions] = True
    return NodeMask(table.nodes, mask)


def _contradicted(strategy: Strategy, per_rule: Bools, by_value: Mapping[str, list[int]]) -> Bools:
    """Return, per row, whether violated rules with different operators set different values of the label."""
    by_operator: dict[Operator, list[int]] = {}
    for number in (number for same in by_value.values() for number in same):
        by_operator.setdefault(strategy.rules[number].operator, []).append(number)
    if len(by_operator) == 1 or len(by_value) == 1:
        return np.zeros(len(per_rule), dtype=bool)
    several: Bools = _several(per_rule, by_operator.values()) & _several(
        per_rule, by_value.values()
    )
    return several


def _several(per_rule: Bools, groups: Iterable[list[int]]) -> Bools:
    """Return, per row, whether rules of more than one group are violated."""
    several: Bools = np.sum([per_rule[:, group].any(axis=1) for group in groups], axis=0) > 1
    return several


def rules_by_label(strategy: Strategy) -> Mapping[str, Mapping[str, list[int]]]:
    """Return label key → value → indices of the rules that set it. If a rule names a key twice, the first counts."""
    found: dict[str, dict[str, list[int]]] = {}
    for number, rule in enumerate(strategy.rules):
        for key, value in {label.key: label.value for label in reversed(rule.labels)}.items():
            found.setdefault(key, {}).setdefault(value, []).append(number)
    return found


def _winner(
    strategy: Strategy,
    table: MetricTable,
    per_rule: Bools,
    numbers: list[int],
    positions: Positions,
) -> Steps[Floats]:
    """Return, per position, the index of the rule that decides a key; -1 where none is violated."""
    winner = np.full(len(positions), -1.0)
    best = np.full(len(positions), np.nan)
    for number in numbers:
        rule = strategy.rules[number]
        values = table.column(rule.metric).values[positions]
        takes = per_rule[positions, number] & ((winner < 0) | _beats(rule.operator, values, best))
        winner[takes], best[takes] = number, values[takes]
        yield
    return winner


def _beats(operator: Operator, values: Floats, best: Floats) -> Bools:
    """Return where values win over the best so far; any reading wins over a missing one."""
    first = np.isnan(best) & ~np.isnan(values)
    match operator:
        case Operator.GREATER_THAN:
            return first | (values > best)
        case Operator.LESS_THAN:
            return first | (values < best)
        case Operator.EQUALS:
            return np.zeros(values.shape, dtype=bool)

"""labeling: set labels of the user's choice on nodes that break a rule."""

from collections.abc import Mapping

import numpy as np

from evaluator.policy import Operator, Strategy
from evaluator.rules import View, Violations
from evaluator.store import Bools, Floats


def wanted(strategy: Strategy, view: View, found: Violations) -> dict[str, dict[str, str]]:
    """Node → label key → value.

    Where several broken rules name the same key, the rule with the highest reading wins for GreaterThan, the one with
    the lowest for LessThan, and the first for Equals and for ties.
    """
    chosen: dict[str, dict[str, str]] = {}
    for key, numbers in _rules_by_key(strategy).items():
        winner = _winner(strategy, view, found, numbers)
        for position in np.flatnonzero(found.violated & (winner >= 0)).tolist():
            rule = strategy.rules[int(winner[position])]
            value = next(label.value for label in rule.labels if label.key == key)
            chosen.setdefault(view.nodes[position], {})[key] = value
    return chosen


def _rules_by_key(strategy: Strategy) -> Mapping[str, list[int]]:
    by_key: dict[str, list[int]] = {}
    for number, rule in enumerate(strategy.rules):
        for key in dict.fromkeys(label.key for label in rule.labels):
            by_key.setdefault(key, []).append(number)
    return by_key


def _winner(strategy: Strategy, view: View, found: Violations, numbers: list[int]) -> Floats:
    """Per node the number of the rule that decides a key, -1 where none of these rules is broken."""
    winner = np.full(len(view.nodes), -1.0)
    best = np.full(len(view.nodes), np.nan)
    for number in numbers:
        rule = strategy.rules[number]
        column = view.columns[rule.metric]
        values = np.where(column.usable, column.values, np.nan)
        takes = found.broken[:, number] & ((winner < 0) | _beats(rule.operator, values, best))
        winner[takes], best[takes] = number, values[takes]
    return winner


def _beats(operator: Operator, values: Floats, best: Floats) -> Bools:
    """Any reading beats that of a rule that is violated without one."""
    first = np.isnan(best) & ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        match operator:
            case Operator.GREATER_THAN:
                return first | (values > best)
            case Operator.LESS_THAN:
                return first | (values < best)
            case Operator.EQUALS:
                return np.zeros(values.shape, dtype=bool)

"""labeling: set labels of the user's choice on nodes that break a rule."""

from collections.abc import Mapping

import numpy as np

from evaluator.marks import Mark
from evaluator.nodes import NodeSet, Places
from evaluator.policy import Operator, Strategy
from evaluator.rules import View, Violations
from evaluator.steps import Steps
from evaluator.store import Bools, Floats


def wanted(strategy: Strategy, view: View, found: Violations) -> Steps[list[Mark]]:
    """Each label that a rule asks for, with the nodes that get it; a key never has two values on one node.

    Where several broken rules name the same key, the rule with the highest reading wins for GreaterThan, the one with
    the lowest for LessThan, and the first for Equals and for ties.
    """
    marks: list[Mark] = []
    for key, by_value in _rules_by_label(strategy).items():
        numbers = sorted(number for same in by_value.values() for number in same)
        if len(strategy.rules) == 1:
            (value,) = by_value
            marks.append(Mark(key, value, NodeSet(view.nodes, found.violated)))
            continue
        places = found.violated.nonzero()[0]
        winner = yield from _winner(strategy, view, found.broken, numbers, places)
        for value, same in by_value.items():
            where = np.zeros(len(view.nodes), dtype=bool)
            where[places[np.isin(winner, same)]] = True
            marks.append(Mark(key, value, NodeSet(view.nodes, where)))
            yield
    return marks


def _rules_by_label(strategy: Strategy) -> Mapping[str, Mapping[str, list[int]]]:
    """Label key → value → the numbers of the rules that ask for it. Of one key twice in a rule the first counts."""
    found: dict[str, dict[str, list[int]]] = {}
    for number, rule in enumerate(strategy.rules):
        for key, value in {label.key: label.value for label in reversed(rule.labels)}.items():
            found.setdefault(key, {}).setdefault(value, []).append(number)
    return found


def _winner(
    strategy: Strategy, view: View, broken: Bools, numbers: list[int], places: Places
) -> Steps[Floats]:
    """At each of these places the number of the rule that decides a key, -1 where none of these rules is broken."""
    winner = np.full(len(places), -1.0)
    best = np.full(len(places), np.nan)
    for number in numbers:
        rule = strategy.rules[number]
        values = view.sight(rule.metric).values[places]
        takes = broken[places, number] & ((winner < 0) | _beats(rule.operator, values, best))
        winner[takes], best[takes] = number, values[takes]
        yield
    return winner


def _beats(operator: Operator, values: Floats, best: Floats) -> Bools:
    """Any reading beats that of a rule that is violated without one."""
    first = np.isnan(best) & ~np.isnan(values)
    match operator:
        case Operator.GREATER_THAN:
            return first | (values > best)
        case Operator.LESS_THAN:
            return first | (values < best)
        case Operator.EQUALS:
            return np.zeros(values.shape, dtype=bool)

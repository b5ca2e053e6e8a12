"""Rules over columns of readings: which nodes break which rule. Missing readings break nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt

from evaluator.policy import Operator, Rule, Strategy
from evaluator.store import Bools, Column


@dataclass(frozen=True)
class View:
    """The nodes of the cluster in a fixed order, and a column of readings over them for every metric that policies name."""

    nodes: tuple[str, ...]
    columns: Mapping[str, Column]


def broken(rule: Rule, column: Column) -> Bools:
    """Per node, whether its reading compares true with the rule's target.

    Comparison is on doubles and strict, so it is exact for integers up to 2^53.
    """
    with np.errstate(
        invalid="ignore"
    ):  # NaN compares false with everything, which is what is wanted
        match rule.operator:
            case Operator.LESS_THAN:
                met = column.values < rule.target
            case Operator.GREATER_THAN:
                met = column.values > rule.target
            case Operator.EQUALS:
                met = column.values == rule.target
            case _:
                assert_never(rule.operator)
    return met & column.usable


@dataclass(frozen=True)
class Violations:
    """Per node, whether the strategy is violated, and per node and rule (in that order) which rules are broken."""

    violated: Bools
    broken: Bools

    def first(self) -> npt.NDArray[np.intp]:
        """Per node the number of its first broken rule; meaningful only where the strategy is violated."""
        return np.argmax(self.broken, axis=1) if self.broken.size else np.zeros(0, np.intp)


def violations(strategy: Strategy, view: View) -> Violations:
    """Which nodes violate a strategy: those that break any rule, or for `all_of` every rule."""
    table = np.zeros((len(view.nodes), len(strategy.rules)), dtype=bool)
    for number, rule in enumerate(strategy.rules):
        table[:, number] = broken(rule, view.columns[rule.metric])
    if not strategy.all_of:
        violated: Bools = np.any(table, axis=1)
    elif strategy.rules and not strategy.impossible:
        violated = np.all(table, axis=1)
    else:
        violated = np.zeros(len(view.nodes), dtype=bool)
    return Violations(violated, table)


def accusation(policy: str) -> str:
    """How a reason of this policy begins, by which it is known again in a pod's condition."""
    return f"violating {policy}: "


def reasons(policy: str, strategy: Strategy, view: View, found: Violations) -> dict[str, str]:
    """Violating node → why, in words that stay the same while the rule does.

    A reading must not be in it: kube-scheduler writes the text into the pod, and a pod that changes is retried at once.
    """
    if not found.violated.any():
        return {}
    names = np.array(view.nodes, dtype=object)
    if strategy.all_of:
        text = f"violating {policy}: {' and '.join(str(rule) for rule in strategy.rules)}"
        return dict.fromkeys(names[found.violated].tolist(), text)
    first = found.first()
    why: dict[str, str] = {}
    for number, rule in enumerate(strategy.rules):
        chosen = names[found.violated & (first == number)]
        why.update(dict.fromkeys(chosen.tolist(), f"violating {policy}: {rule}"))
    return why

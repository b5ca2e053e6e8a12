"""Rules over columns of readings: which nodes break which rule, by what they read or by having no reading."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt

from evaluator.policy import Operator, Rule, Strategy
from evaluator.store import Bools, Column
from evaluator.terms import WhenMissing


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
    """Per node, whether the strategy is violated, and per node and rule (in that order) which rules are violated.

    `missing` marks those that are violated because a reading is missing, `carried` those of which only a label of an
    earlier life tells.
    """

    violated: Bools
    broken: Bools
    missing: Bools
    carried: Bools

    def first(self) -> npt.NDArray[np.intp]:
        """Per node the number of its first violated rule, of those known by more than a label if there are any.

        Meaningful only where the strategy is violated.
        """
        if not self.broken.size:
            return np.zeros(0, np.intp)
        known = self.broken & ~self.carried
        best = np.where(known.any(axis=1, keepdims=True), known, self.broken)
        first: npt.NDArray[np.intp] = np.argmax(best, axis=1)
        return first


def violations(strategy: Strategy, view: View) -> Violations:
    """Which nodes violate a strategy at this moment, whatever was before."""
    broken_by_reading, missing = by_rule(strategy, view)
    return combined(strategy, broken_by_reading | missing, missing)


def by_rule(strategy: Strategy, view: View) -> tuple[Bools, Bools]:
    """Per node and rule, whether the reading breaks it, and whether the lack of one does."""
    shape = (len(view.nodes), len(strategy.rules))
    by_reading, by_lack = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    for number, rule in enumerate(strategy.rules):
        column = view.columns[rule.metric]
        by_reading[:, number] = broken(rule, column)
        if rule.terms.when_missing is WhenMissing.VIOLATE:
            by_lack[:, number] = ~column.usable & ~column.awaited
    return by_reading, by_lack


def combined(
    strategy: Strategy, table: Bools, missing: Bools, carried: Bools | None = None
) -> Violations:
    """Rules put together: any violated rule violates the strategy, or for `all_of` only all of them."""
    if not strategy.all_of:
        violated: Bools = np.any(table, axis=1)
    elif strategy.rules and not strategy.impossible:
        violated = np.all(table, axis=1)
    else:
        violated = np.zeros(table.shape[0], dtype=bool)
    return Violations(
        violated, table, missing, np.zeros_like(table) if carried is None else carried
    )


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
    why: dict[str, str] = {}
    for which, text in _texts(strategy, found):
        why.update(dict.fromkeys(names[which].tolist(), f"{accusation(policy)}{text}"))
    return why


def _texts(strategy: Strategy, found: Violations) -> Iterator[tuple[Bools, str]]:
    """Violating nodes, and what to say of them."""
    if strategy.all_of:
        patterns = np.unique(found.missing[found.violated], axis=0)
        for pattern in patterns:
            which = found.violated & (found.missing == pattern).all(axis=1)
            parts = zip(strategy.rules, pattern.tolist(), strict=True)
            yield which, " and ".join(_text(rule, missing=missing) for rule, missing in parts)
        return
    first = found.first()
    for number, rule in enumerate(strategy.rules):
        chosen = found.violated & (first == number)
        for missing in (False, True):
            yield chosen & (found.missing[:, number] == missing), _text(rule, missing=missing)


def _text(rule: Rule, *, missing: bool) -> str:
    return f"{rule.metric} is missing" if missing else str(rule)

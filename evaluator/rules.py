"""Rules over columns of readings: which nodes break which rule, by what they read or by having no reading."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import assert_never

import numpy as np
import numpy.typing as npt

from evaluator.nodes import Nodes, NodeSet, alike, union
from evaluator.policy import Operator, Rule, Strategy
from evaluator.store import NEVER, Bools, Column, Floats
from evaluator.terms import WhenMissing


class Sight:
    """One column as rules see it, worked out once for all of them.

    `values` are NaN where no rule may look. `lacking` are the nodes where that is so, `awaiting` whether a first word is
    still to be expected of any node.
    """

    def __init__(self, column: Column, nodes: Nodes, before: "Sight | None" = None) -> None:
        self.column = column
        self.usable = column.usable
        self.lacking: NodeSet = NodeSet(nodes, ~self.usable).as_before(
            before.lacking if before else None
        )
        self.awaiting = bool(column.awaited.any())

    @cached_property
    def values(self) -> Floats:
        """The readings that count."""
        if not self.lacking.count:
            return self.column.values
        return np.where(self.usable, self.column.values, np.nan)

    @cached_property
    def several(self) -> NodeSet:
        """The nodes with more samples than one, where there is no telling which is meant."""
        column = self.column
        return NodeSet(self.lacking.nodes, (column.samples > 1) & column.fresh)

    @cached_property
    def most_samples(self) -> tuple[str, int]:
        """The first of those nodes that has the most, and how many."""
        samples = np.where(self.several.mask, self.column.samples, 0)
        worst = int(samples.argmax())
        return self.several.nodes[worst], int(samples[worst])

    @cached_property
    def known(self) -> Bools:
        """Where there is a reading, or may be soon."""
        column = self.column
        found: Bools = column.awaited | (column.fresh & (column.samples > 0))
        return found

    @cached_property
    def unheard(self) -> Bools:
        """Where there never was a reading."""
        never: Bools = self.column.at == NEVER
        return never

    @cached_property
    def missing(self) -> Bools:
        """Where there is no reading, and no first one is on its way."""
        return self.lacking.mask & ~self.column.awaited if self.awaiting else self.lacking.mask


@dataclass(frozen=True)
class View:
    """The nodes of the cluster in a fixed order, and a column of readings over them for every metric that policies name."""

    nodes: Nodes
    columns: Mapping[str, Column]
    sights: dict[str, Sight] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Those that somebody has asked for."""

    def __post_init__(self) -> None:
        if type(self.nodes) is not Nodes:
            object.__setattr__(self, "nodes", Nodes(self.nodes))

    @classmethod
    def after(cls, before: "View", nodes: Nodes, columns: Mapping[str, Column]) -> "View":
        """A view that shares with the one before what is the same."""
        view = cls(nodes, columns)
        for metric, column in columns.items():
            view.sights[metric] = Sight(column, nodes, before.sights.get(metric))
        return view

    def sight(self, metric: str) -> Sight:
        """A column as rules see it."""
        sight = self.sights.get(metric)
        if sight is None:
            sight = self.sights[metric] = Sight(self.columns[metric], self.nodes)
        return sight

    def awaited(self, metrics: Iterable[str]) -> Bools:
        """Where a first word on any of these metrics is still to come; `nodes.none` itself if nowhere."""
        sights = (self.sight(metric) for metric in metrics)
        return union((s.column.awaited for s in sights if s.awaiting), self.nodes)


def broken(rule: Rule, values: Floats) -> Bools:
    """Per node, whether its reading compares true with the rule's target; `values` are those of a `Sight`.

    Comparison is on doubles and strict, so it is exact for integers up to 2^53. NaN compares false with everything,
    which is what is wanted where there is no reading.
    """
    met: Bools
    match rule.operator:
        case Operator.LESS_THAN:
            met = values < rule.target
        case Operator.GREATER_THAN:
            met = values > rule.target
        case Operator.EQUALS:
            met = values == rule.target
        case _:
            assert_never(rule.operator)
    return met


@dataclass(frozen=True)
class Violations:
    """Per node, whether the strategy is violated, and per node and rule (in that order) which rules are violated.

    `missing` marks those that are violated because a reading is missing, `carried` those of which only a label of an
    earlier life tells. None of the four is to be written to.
    """

    violated: Bools
    broken: Bools
    missing: Bools
    carried: Bools

    def same(self, other: "Violations") -> bool:
        """Whether the other says the same of the same nodes and rules."""
        return (
            alike(self.broken, other.broken)
            and alike(self.missing, other.missing)
            and alike(self.carried, other.carried)
            and alike(self.violated, other.violated)
        )

    def first(self) -> npt.NDArray[np.intp]:
        """Per violating node the number of its first violated rule, of those known by more than a label if there are any."""
        broken = self.broken[self.violated]
        known = broken & ~self.carried[self.violated]
        best = np.where(known.any(axis=1, keepdims=True), known, broken)
        first: npt.NDArray[np.intp] = np.argmax(best, axis=1)
        return first


def violations(strategy: Strategy, view: View) -> Violations:
    """Which nodes violate a strategy at this moment, whatever was before."""
    broken_by_reading, missing = by_rule(strategy, view)
    return combined(strategy, broken_by_reading | missing, missing)


def by_rule(strategy: Strategy, view: View) -> tuple[Bools, Bools]:
    """Per node and rule, whether the reading breaks it, and whether the lack of one does. Not to be written to."""
    sights = [view.sight(rule.metric) for rule in strategy.rules]
    pairs = zip(strategy.rules, sights, strict=True)
    by_reading = table([broken(rule, sight.values) for rule, sight in pairs], view.nodes)
    if not any(rule.terms.when_missing is WhenMissing.VIOLATE for rule in strategy.rules):
        return by_reading, nowhere(strategy, view.nodes)
    by_lack = [
        sight.missing if rule.terms.when_missing is WhenMissing.VIOLATE else view.nodes.none
        for rule, sight in zip(strategy.rules, sights, strict=True)
    ]
    return by_reading, table(by_lack, view.nodes)


def table(masks: Sequence[Bools], nodes: Nodes) -> Bools:
    """Masks, one for each rule, as a table of nodes and rules in which each rule's lies in one piece."""
    if len(masks) == 1:
        return masks[0].reshape(-1, 1)
    return np.array(masks).T if masks else np.zeros((len(nodes), 0), dtype=bool)


def nowhere(strategy: Strategy, nodes: Nodes) -> Bools:
    """The table of a strategy none of whose rules holds anywhere; not to be written to."""
    if len(strategy.rules) == 1:
        return nodes.none.reshape(-1, 1)
    return np.zeros((len(strategy.rules), len(nodes)), dtype=bool).T


def combined(
    strategy: Strategy, table: Bools, missing: Bools, carried: Bools | None = None
) -> Violations:
    """Rules put together: any violated rule violates the strategy, or for `all_of` only all of them."""
    violated: Bools
    if strategy.all_of and (strategy.impossible or not strategy.rules):
        violated = np.zeros(table.shape[0], dtype=bool)
    elif table.shape[1] == 1:
        violated = table[:, 0]
    else:
        violated = np.all(table, axis=1) if strategy.all_of else np.any(table, axis=1)
    return Violations(
        violated, table, missing, np.zeros_like(table) if carried is None else carried
    )


def accusation(policy: str) -> str:
    """How a reason of this policy begins, by which it is known again in a pod's condition."""
    return f"violating {policy}: "


def reasons(policy: str, strategy: Strategy, nodes: Nodes, found: Violations) -> dict[str, str]:
    """Violating node → why, in words that stay the same while the rule does.

    A reading must not be in it: kube-scheduler writes the text into the pod, and a pod that changes is retried at once.
    """
    names = np.array(nodes.at(found.violated), dtype=object)
    why: dict[str, str] = {}
    for which, text in _texts(strategy, found) if len(names) else ():
        why.update(dict.fromkeys(names[which].tolist(), f"{accusation(policy)}{text}"))
    return why


def _texts(strategy: Strategy, found: Violations) -> Iterator[tuple[Bools, str]]:
    """Which of the violating nodes, and what to say of them."""
    missing = found.missing[found.violated]
    if strategy.all_of:
        for pattern in np.unique(missing, axis=0):
            which = (missing == pattern).all(axis=1)
            parts = zip(strategy.rules, pattern.tolist(), strict=True)
            yield which, " and ".join(_text(rule, missing=lack) for rule, lack in parts)
        return
    first = found.first()
    for number, rule in enumerate(strategy.rules):
        chosen = first == number
        for lack in (False, True):
            yield chosen & (missing[:, number] == lack), _text(rule, missing=lack)


def _text(rule: Rule, *, missing: bool) -> str:
    return f"{rule.metric} is missing" if missing else str(rule)

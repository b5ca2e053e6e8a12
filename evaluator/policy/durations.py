"""`for` and `clearAfter`: a rule is violated once it was broken for a while, until it was not for a while.

What time has to do with it is a value that goes in and comes out (`Standing`), so that decide() stays a function of its
arguments. Nothing is written down: after a restart a running `for` begins again, and a label of ours says that the node
was in violation, so that it is taken off only after `clearAfter`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from evaluator.model.node_index import NodeIndex, Reindex
from evaluator.model.steps import Steps
from evaluator.policy import evaluate
from evaluator.policy.evaluate import MetricColumn, MetricTable, Violations
from evaluator.policy.rule_timers import RuleTimers, TimedState
from evaluator.policy.types import Operator, Rule, Strategy
from evaluator.readings.store import Bools


class _RuleKey(NamedTuple):
    """A rule as time knows it: an edit of its `for`, or of its place among others, makes no new one of it."""

    metric: str
    operator: Operator
    target: float
    nth: int
    """Which one of those that compare the same."""


@dataclass(frozen=True)
class StrategyState:
    """A strategy over the nodes at one moment. `due` is when time alone will change it.

    `settled` are the nodes about which something was decided: once every first reading that it takes was there.
    """

    rules: tuple[Rule, ...]
    found: Violations
    settled: Bools
    timers: Mapping[int, RuleTimers] = field(default_factory=dict)
    """By the number of the rule; only for those that have a `for` or a `clearAfter`."""
    due: float = np.inf

    @property
    def pending(self) -> int:
        """On how many nodes a `for` is running."""
        return _anywhere([timers.pending for timers in self.timers.values()])

    @property
    def clearing(self) -> int:
        """On how many nodes a `clearAfter` is running."""
        return _anywhere([timers.clearing for timers in self.timers.values()])

    @property
    def violated_by_missing(self) -> Bools:
        """Which nodes violate the strategy by a rule that lacks a reading."""
        lacks: Bools = self.found.violated & self.found.missing.any(axis=1)
        return lacks

    @property
    def missing_violations(self) -> int:
        """How many nodes those are."""
        return int(np.count_nonzero(self.violated_by_missing)) if self.found.missing.any() else 0


def _anywhere(masks: Sequence[Bools]) -> int:
    return int(np.count_nonzero(np.logical_or.reduce(masks))) if masks else 0


@dataclass(frozen=True)
class PreviousState:
    """What is known of a strategy from before.

    `moves` says where today's nodes were then. Where nothing was decided yet, `marked` tells which of some nodes bear
    the label that a rule set in an earlier life.
    """

    state: StrategyState | None
    moves: Reindex
    marked: Callable[[Rule, Bools], Bools]

    def settled(self, nodes: NodeIndex) -> Bools:
        """About which of today's nodes something was decided."""
        return nodes.none if self.state is None else self.moves.mask(self.state.settled)


def advance(
    strategy: Strategy, table: MetricTable, previous: PreviousState, *, now: float
) -> Steps[StrategyState]:
    """How a strategy stands at `now`, after how it stood before; a step for each rule that is timed."""
    nodes = table.nodes
    by_reading, by_missing = evaluate.match_rules(strategy, table)
    nowhere = nodes.no_rules(len(strategy.rules))
    matches = by_reading if by_missing is nowhere else by_reading | by_missing
    settled = _settled(strategy, table, previous)
    timed = [number for number, rule in enumerate(strategy.rules) if rule.options.timed]
    if not timed:
        found = evaluate.combine(strategy, matches, by_missing, nowhere)
        return StrategyState(strategy.rules, found, settled)
    yield
    prepared = [table.column(rule.metric) for rule in strategy.rules]
    seen = [
        TimedState(
            matches[:, number],
            nodes.none if by_missing is nowhere else by_missing[:, number],
            column.never_reported,
        )
        for number, column in enumerate(prepared)
    ]
    yield
    timers: dict[int, RuleTimers] = {}
    for number in timed:
        timers[number] = _remember(strategy, number, seen[number], table, previous, now)
        yield
    columns = []
    for number, column in enumerate(prepared):
        columns.append(_column(timers.get(number), seen[number], column))
        yield
    found = evaluate.combine(
        strategy, *(evaluate.stack_rules(c, nodes) for c in zip(*columns, strict=True))
    )
    due = min(timers.due(strategy.rules[number].options) for number, timers in timers.items())
    return StrategyState(strategy.rules, found, settled, timers, due)


def _column(
    timers: RuleTimers | None, seen: TimedState, column: MetricColumn
) -> tuple[Bools, Bools, Bools]:
    """Where a rule is violated; where for the lack of a reading; where only a label of an earlier life tells of it."""
    if timers is None:
        return seen.matches, seen.by_missing, column.unusable.nodes.none
    # Before its first word, a node is neither in violation nor out of it.
    violated = (
        timers.violated & ~column.readings.unreported if column.any_unreported else timers.violated
    )
    missing, carried, none = timers.missing, timers.from_previous_leader, timers.none
    return (
        violated,
        none if missing is none else missing & violated,
        none if carried is none else carried & violated,
    )


def _settled(strategy: Strategy, table: MetricTable, previous: PreviousState) -> Bools:
    unreported = table.unreported(rule.metric for rule in strategy.rules)
    everybody = unreported is table.nodes.none
    return table.nodes.all if everybody else previous.settled(table.nodes) | ~unreported


def _remember(
    strategy: Strategy,
    number: int,
    seen: TimedState,
    table: MetricTable,
    previous: PreviousState,
    now: float,
) -> RuleTimers:
    """What is to be remembered of one rule."""
    rule = strategy.rules[number]
    column = table.column(rule.metric)
    before = _remembered(previous, strategy, number, table.nodes)
    was = before.violated
    if before.blank is not table.nodes.none:
        was = was | _once_violated(previous, strategy, number, table, before.blank)
    timers = before.after(seen, was, rule.options, now=now)
    return timers.unless(column.readings.unreported, before) if column.any_unreported else timers


def _remembered(
    previous: PreviousState, strategy: Strategy, number: int, nodes: NodeIndex
) -> RuleTimers:
    if previous.state is not None:
        old = _place(previous.state.rules, strategy.rules, number)
        if (timers := previous.state.timers.get(old)) is not None:
            return timers.moved(previous.moves, nodes)
    return RuleTimers.new(nodes)


def _once_violated(
    previous: PreviousState, strategy: Strategy, number: int, table: MetricTable, blank: Bools
) -> Bools:
    """Who was in violation of a rule about which nothing is remembered: it is new, or this process is.

    An edit of a rule makes another one of it. So that nothing flaps, a new rule inherits the violators of the strategy if
    some rule of it is no more.
    """
    rule, settled = strategy.rules[number], previous.settled(table.nodes) & blank
    was = settled
    if previous.state is not None and settled.any():
        was = settled & previous.moves.mask(_inherited(previous.state, strategy, number))
    asked = blank & ~settled
    if rule.labels:  # of several rules of labeling, it is the one whose label the node bears
        asked |= was
    return (was & ~asked) | previous.marked(rule, asked)


def _inherited(state: StrategyState, strategy: Strategy, number: int) -> Bools:
    """Over the nodes of that time."""
    old = _place(state.rules, strategy.rules, number)
    if old >= 0:
        return state.found.per_rule[:, old]
    if {*_keys(state.rules)} - {*_keys(strategy.rules)}:
        return state.found.violated
    return np.zeros_like(state.found.violated)


def _place(old: Sequence[Rule], new: Sequence[Rule], number: int) -> int:
    """The number that a rule had among others; -1 if it was not there."""
    if old is new:
        return number
    key, known = _keys(new)[number], _keys(old)
    return known.index(key) if key in known else -1


def _keys(given: Sequence[Rule]) -> list[_RuleKey]:
    counts: Counter[tuple[str, Operator, float]] = Counter()
    keys = []
    for rule in given:
        same = (rule.metric, rule.operator, rule.target)
        keys.append(_RuleKey(*same, counts[same]))
        counts[same] += 1
    return keys

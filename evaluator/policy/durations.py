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
    memories: Mapping[int, RuleTimers] = field(default_factory=dict)
    """By the number of the rule; only for those that have a `for` or a `clearAfter`."""
    due: float = np.inf

    @property
    def pending(self) -> int:
        """On how many nodes a `for` is running."""
        return _anywhere([memory.pending for memory in self.memories.values()])

    @property
    def clearing(self) -> int:
        """On how many nodes a `clearAfter` is running."""
        return _anywhere([memory.clearing for memory in self.memories.values()])

    @property
    def lacking(self) -> Bools:
        """Which nodes violate the strategy by a rule that lacks a reading."""
        lacks: Bools = self.found.violated & self.found.missing.any(axis=1)
        return lacks

    @property
    def missing(self) -> int:
        """How many nodes those are."""
        return int(np.count_nonzero(self.lacking)) if self.found.missing.any() else 0


def _anywhere(masks: Sequence[Bools]) -> int:
    return int(np.count_nonzero(np.logical_or.reduce(masks))) if masks else 0


@dataclass(frozen=True)
class PreviousState:
    """What is known of a strategy from before.

    `moves` says where today's nodes were then. Where nothing was decided yet, `marked` tells which of some nodes bear
    the label that a rule set in an earlier life.
    """

    standing: StrategyState | None
    moves: Reindex
    marked: Callable[[Rule, Bools], Bools]

    def settled(self, nodes: NodeIndex) -> Bools:
        """About which of today's nodes something was decided."""
        return nodes.none if self.standing is None else self.moves.mask(self.standing.settled)


def advance(
    strategy: Strategy, view: MetricTable, past: PreviousState, *, now: float
) -> Steps[StrategyState]:
    """How a strategy stands at `now`, after how it stood before; a step for each rule that is timed."""
    nodes = view.nodes
    by_reading, by_lack = evaluate.by_rule(strategy, view)
    nowhere = nodes.nowhere(len(strategy.rules))
    broken = by_reading if by_lack is nowhere else by_reading | by_lack
    settled = _settled(strategy, view, past)
    timed = [number for number, rule in enumerate(strategy.rules) if rule.terms.timed]
    yield
    if not timed:
        found = evaluate.combined(strategy, broken, by_lack, nowhere)
        return StrategyState(strategy.rules, found, settled)
    sights = [view.sight(rule.metric) for rule in strategy.rules]
    seen = [
        TimedState(
            broken[:, number],
            nodes.none if by_lack is nowhere else by_lack[:, number],
            sight.never_reported,
        )
        for number, sight in enumerate(sights)
    ]
    yield
    memories: dict[int, RuleTimers] = {}
    for number in timed:
        memories[number] = _remember(strategy, number, seen[number], view, past, now)
        yield
    columns = []
    for number, sight in enumerate(sights):
        columns.append(_column(memories.get(number), seen[number], sight))
        yield
    found = evaluate.combined(
        strategy, *(evaluate.table(c, nodes) for c in zip(*columns, strict=True))
    )
    due = min(memory.due(strategy.rules[number].terms) for number, memory in memories.items())
    return StrategyState(strategy.rules, found, settled, memories, due)


def _column(
    memory: RuleTimers | None, seen: TimedState, sight: MetricColumn
) -> tuple[Bools, Bools, Bools]:
    """Where a rule is violated; where for the lack of a reading; where only a label of an earlier life tells of it."""
    if memory is None:
        return seen.broken, seen.by_lack, sight.lacking.nodes.none
    # Before its first word, a node is neither in violation nor out of it.
    violated = memory.violated & ~sight.column.awaited if sight.awaiting else memory.violated
    missing, carried, none = memory.missing, memory.carried, memory.none
    return (
        violated,
        none if missing is none else missing & violated,
        none if carried is none else carried & violated,
    )


def _settled(strategy: Strategy, view: MetricTable, past: PreviousState) -> Bools:
    awaited = view.awaited(rule.metric for rule in strategy.rules)
    everybody = awaited is view.nodes.none
    return view.nodes.all if everybody else past.settled(view.nodes) | ~awaited


def _remember(
    strategy: Strategy,
    number: int,
    seen: TimedState,
    view: MetricTable,
    past: PreviousState,
    now: float,
) -> RuleTimers:
    """What is to be remembered of one rule."""
    rule = strategy.rules[number]
    sight = view.sight(rule.metric)
    before = _remembered(past, strategy, number, view.nodes)
    was = before.violated
    if before.blank is not view.nodes.none:
        was = was | _once_violated(past, strategy, number, view, before.blank)
    memory = before.after(seen, was, rule.terms, now=now)
    return memory.unless(sight.column.awaited, before) if sight.awaiting else memory


def _remembered(
    past: PreviousState, strategy: Strategy, number: int, nodes: NodeIndex
) -> RuleTimers:
    if past.standing is not None:
        old = _place(past.standing.rules, strategy.rules, number)
        if (memory := past.standing.memories.get(old)) is not None:
            return memory.moved(past.moves, nodes)
    return RuleTimers.new(nodes)


def _once_violated(
    past: PreviousState, strategy: Strategy, number: int, view: MetricTable, blank: Bools
) -> Bools:
    """Who was in violation of a rule about which nothing is remembered: it is new, or this process is.

    An edit of a rule makes another one of it. So that nothing flaps, a new rule inherits the violators of the strategy if
    some rule of it is no more.
    """
    rule, settled = strategy.rules[number], past.settled(view.nodes) & blank
    was = settled
    if past.standing is not None and settled.any():
        was = settled & past.moves.mask(_inherited(past.standing, strategy, number))
    asked = blank & ~settled
    if rule.labels:  # of several rules of labeling, it is the one whose label the node bears
        asked |= was
    return (was & ~asked) | past.marked(rule, asked)


def _inherited(standing: StrategyState, strategy: Strategy, number: int) -> Bools:
    """Over the nodes of that time."""
    old = _place(standing.rules, strategy.rules, number)
    if old >= 0:
        return standing.found.broken[:, old]
    if {*_keys(standing.rules)} - {*_keys(strategy.rules)}:
        return standing.found.violated
    return np.zeros_like(standing.found.violated)


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

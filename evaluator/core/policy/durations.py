"""Applies `for` and `clearAfter`: a rule is violated after it matched for `for`, until it did not for `clearAfter`.

State is passed in and returned (`StrategyState`), so that decide() stays a function of its arguments. It is not
persisted: after a restart a running `for` starts again. A label that Plimsoll owns shows that the node was in violation,
and is removed only after `clearAfter`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evaluator.core.model.arrays import Bools
from evaluator.core.model.node_index import NodeIndex, NodeMask, Positions, Reindex
from evaluator.core.policy import evaluate
from evaluator.core.policy.evaluate import MetricColumn, MetricTable
from evaluator.core.policy.rule_timers import RuleTimers, TimedState
from evaluator.core.policy.types import Operator, Rule, Strategy
from evaluator.core.policy.violations import Violations
from plimsoll.steps import Steps

Phases = npt.NDArray[np.uint8]
"""A `Phase` per node, shape (nodes,)."""


class Phase(IntEnum):
    """What a strategy makes of a node; of several rules the highest phase counts."""

    CLEAR = 0
    PENDING = 1
    """A rule matches, and its `for` is running."""
    CLEARING = 2
    """Violated; no rule matches any more, and `clearAfter` is running."""
    VIOLATED = 3

    @property
    def word(self) -> str:
        """The phase in JSON and on pages."""
        return self.name.lower()


_PENDING, _CLEARING, _VIOLATED = (
    int(one) for one in (Phase.PENDING, Phase.CLEARING, Phase.VIOLATED)
)
"""As numbers: reading a member of an enumeration takes as long as an operation on thousands of nodes."""


class _RuleKey(NamedTuple):
    """Identity of a rule for its timers: edits of `for`, `clearAfter` or the order of rules keep them."""

    metric: str
    operator: Operator
    target: float
    nth: int
    """Index among rules with the same comparison."""


@dataclass(frozen=True)
class StrategyState:
    """The result of one strategy and its timers.

    `due` is when a timer ends. `settled`, shape (nodes,): nodes that have had a verdict, which needs a first report of every
    metric of the strategy.
    """

    rules: tuple[Rule, ...]
    found: Violations
    settled: Bools
    timers: Mapping[int, RuleTimers] = field(default_factory=dict)
    """By index of the rule; only for rules with `for` or `clearAfter`."""
    due: float = np.inf
    held_back: Mapping[int, NodeMask] = field(default_factory=dict)
    """By index of the rule, the nodes that differ from their peers but do not violate it: too many of a group do."""
    kept: NodeMask | None = None
    """The nodes that stay in violation although no rule matches: they flap."""

    @property
    def lasts(self) -> bool:
        """Whether it stays the same while what it was made from does: no timer runs, and no node is kept in violation."""
        return self.kept is None and not any(
            timers.waiting.size or timers.blank is not timers.none
            for timers in self.timers.values()
        )

    @property
    def pending(self) -> int:
        """The number of nodes on which a `for` is running."""
        return _anywhere([timers.pending for timers in self.timers.values()])

    @property
    def clearing(self) -> int:
        """The number of nodes on which a `clearAfter` is running."""
        return _anywhere([timers.clearing for timers in self.timers.values()])

    @property
    def held_back_nodes(self) -> int:
        """The number of nodes in `held_back`."""
        return _anywhere([nodes.mask for nodes in self.held_back.values()])

    @property
    def violated_by_missing(self) -> Bools:
        """Nodes that violate the strategy by a rule whose reading is missing, shape (nodes,)."""
        by_missing: Bools = self.found.violated & self.found.missing.any(axis=1)
        return by_missing

    @property
    def missing_violations(self) -> int:
        """The number of nodes in `violated_by_missing`."""
        return int(np.count_nonzero(self.violated_by_missing)) if self.found.missing.any() else 0

    def phases(self, *, all_of: bool, at: Positions | slice = slice(None)) -> Phases:
        """Return the phase of each node, or of those at some positions; `all_of`: whether the rules must all match."""
        violated = self.found.violated[at]
        found = np.zeros(len(violated), np.uint8)
        waiting = [timers for timers in self.timers.values() if timers.waiting.size]
        for timers in waiting:
            found[timers.matches[at] & ~timers.violated[at]] = _PENDING
        found[violated] = _VIOLATED
        if waiting:
            found[violated & ~self._matches(at, all_of=all_of)] = _CLEARING
        return found

    def moved(self, reindex: Reindex, nodes: NodeIndex) -> "StrategyState":
        """Return the state over the current nodes."""
        if reindex.is_identity:
            return self
        held_back = {
            number: NodeMask(nodes, reindex.mask(held.mask))
            for number, held in self.held_back.items()
        }
        return replace(
            self,
            found=self.found.moved(reindex),
            settled=reindex.mask(self.settled),
            timers={number: one.moved(reindex, nodes) for number, one in self.timers.items()},
            held_back=held_back,
            kept=NodeMask(nodes, reindex.mask(self.kept.mask)) if self.kept else None,
        )

    def may_differ(self, before: "StrategyState") -> Bools:
        """Return the nodes whose phase may differ from an earlier one over the same nodes and rules, shape (nodes,)."""
        changed: Bools = self.found.violated ^ before.found.violated
        if self.timers and self.found.per_rule is not before.found.per_rule:
            changed |= (self.found.per_rule ^ before.found.per_rule).any(axis=1)
        for number, timers in self.timers.items():
            if (known := before.timers[number]) is not timers:
                changed |= (timers.matches ^ known.matches) | (timers.violated ^ known.violated)
        return changed

    def _matches(self, at: Positions | slice, *, all_of: bool) -> Bools:
        """Return where the comparisons are true now, without `for` and `clearAfter`, at some positions."""
        per_rule = self.found.per_rule
        masks = [
            (timers.matches if (timers := self.timers.get(number)) else per_rule[:, number])[at]
            for number in range(len(self.rules))
        ]
        combined: Bools = (np.logical_and if all_of else np.logical_or).reduce(masks)
        return combined


def _anywhere(masks: Sequence[Bools]) -> int:
    return int(np.count_nonzero(np.logical_or.reduce(masks))) if masks else 0


@dataclass(frozen=True)
class PreviousState:
    """The previous state of a strategy (None: there is none), and how its nodes map to the current ones.

    `labelled(rule, nodes)` returns which of the nodes have the label of a rule; used where there is no previous verdict.
    """

    state: StrategyState | None
    reindex: Reindex
    labelled: Callable[[Rule, Bools], Bools]
    held: Bools | None = None
    """The current nodes that stay in violation although no rule matches, shape (nodes,)."""

    def settled(self, nodes: NodeIndex) -> Bools:
        """Return which of the current nodes have had a verdict, shape (nodes,)."""
        return nodes.none if self.state is None else self.reindex.mask(self.state.settled)

    def reuse(self, state: StrategyState) -> StrategyState:
        """Return the previous state if this one of the same rules is equal, else this one; only without timers and held nodes."""
        before = self.state
        if (
            before is not None
            and self.reindex.is_identity
            and before.rules is state.rules
            and before.settled is state.settled
            and not (before.timers or before.held_back or state.held_back)
            and before.kept is state.kept is None
            and before.found.same(state.found)
        ):
            return before
        return state


def advance(
    strategy: Strategy, table: MetricTable, previous: PreviousState, *, now: float
) -> Steps[StrategyState]:
    """Compute the state of a strategy at `now` (seconds) from its previous state; one step per timed rule."""
    nodes = table.nodes
    by_reading, by_missing = evaluate.match_rules(strategy, table)
    nowhere = nodes.no_rules(len(strategy.rules))
    matches = by_reading if by_missing is nowhere else by_reading | by_missing
    settled = _settled(strategy, table, previous)
    timed = [number for number, rule in enumerate(strategy.rules) if rule.options.timed]
    if not timed:
        found = evaluate.combine(strategy, matches, by_missing, nowhere)
        found, kept = _keeping(found, strategy, previous.held, nodes)
        held_back = _held_back(strategy, table, {})
        state = StrategyState(strategy.rules, found, settled, held_back=held_back, kept=kept)
        return previous.reuse(state)
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
        timers[number] = _advance_timers(strategy, number, seen[number], table, previous, now)
        yield
    columns = []
    dropped: dict[int, Bools] = {}
    for number, column in enumerate(prepared):
        masks = _column(timers.get(number), seen[number], column)
        if column.readings.peers is not None:
            accused = column.at_most(
                strategy.rules[number].operator, masks[0], seen[number].matches
            )
            if accused is not masks[0]:
                dropped[number] = masks[0] & ~accused
                masks = (accused, masks[1] & accused, masks[2] & accused)
        columns.append(masks)
        yield
    found = evaluate.combine(
        strategy, *(evaluate.stack_rules(c, nodes) for c in zip(*columns, strict=True))
    )
    # The timer of a node that has to report first may have ended; its report causes the next evaluation.
    due = min(timers.due(strategy.rules[number].options, now) for number, timers in timers.items())
    held_back = _held_back(strategy, table, dropped)
    found, kept = _keeping(found, strategy, previous.held, nodes)
    return StrategyState(strategy.rules, found, settled, timers, due, held_back, kept)


def _keeping(
    found: Violations, strategy: Strategy, held: Bools | None, nodes: NodeIndex
) -> tuple[Violations, NodeMask | None]:
    """Return the violations with nodes that stay in violation, and those of them that no rule puts there.

    They count as violating the first rule, or all rules that count only together.
    """
    if held is None or held is nodes.none or not strategy.rules or strategy.impossible:
        return found, None
    kept = held & ~found.violated
    if not kept.any():
        return found, None
    per_rule = found.per_rule.copy(order="F")
    per_rule[kept, : len(strategy.rules) if strategy.all_of else 1] = True
    more = evaluate.combine(strategy, per_rule, found.missing, found.from_previous_leader)
    return more, NodeMask(nodes, kept)


def _held_back(
    strategy: Strategy, table: MetricTable, dropped: Mapping[int, Bools]
) -> Mapping[int, NodeMask]:
    """Return the nodes that each rule holds back; `dropped`: those whose `for` had ended."""
    found = {}
    for number, rule in enumerate(strategy.rules):
        if rule.peers:
            none = table.nodes.none
            held_back = table.column(rule.metric).held_back(rule)
            if (more := dropped.get(number, none)) is not none:
                held_back = held_back | more
            if held_back is not none:
                found[number] = NodeMask(table.nodes, held_back)
    return found


def _column(
    timers: RuleTimers | None, seen: TimedState, column: MetricColumn
) -> tuple[Bools, Bools, Bools]:
    """Return three masks (nodes,): violated, violated by a missing reading, known only from a label."""
    if timers is None:
        return seen.matches, seen.by_missing, column.unusable.nodes.none
    # A node that has not reported the metric yet gets no verdict.
    violated = (
        timers.violated & ~column.readings.unreported if column.any_unreported else timers.violated
    )
    missing, from_label, none = timers.missing, timers.from_previous_leader, timers.none
    return (
        violated,
        none if missing is none else missing & violated,
        none if from_label is none else from_label & violated,
    )


def _settled(strategy: Strategy, table: MetricTable, previous: PreviousState) -> Bools:
    unreported = table.unreported(rule.metric for rule in strategy.rules)
    complete = unreported is table.nodes.none
    return table.nodes.all if complete else previous.settled(table.nodes) | ~unreported


def _advance_timers(
    strategy: Strategy,
    number: int,
    seen: TimedState,
    table: MetricTable,
    previous: PreviousState,
    now: float,
) -> RuleTimers:
    """Advance the timers of one rule."""
    rule = strategy.rules[number]
    column = table.column(rule.metric)
    before = _previous_timers(previous, strategy, number, table.nodes)
    violated_before = before.violated
    if before.blank is not table.nodes.none:
        violated_before = violated_before | _once_violated(
            previous, strategy, number, table, before.blank
        )
    timers = before.after(seen, violated_before, rule.options, now=now)
    return timers.unless(column.readings.unreported, before) if column.any_unreported else timers


def _previous_timers(
    previous: PreviousState, strategy: Strategy, number: int, nodes: NodeIndex
) -> RuleTimers:
    if previous.state is not None:
        old = _index(previous.state.rules, strategy.rules, number)
        if (timers := previous.state.timers.get(old)) is not None:
            return timers.moved(previous.reindex, nodes)
    return RuleTimers.new(nodes)


def _once_violated(
    previous: PreviousState, strategy: Strategy, number: int, table: MetricTable, blank: Bools
) -> Bools:
    """Return which nodes were in violation of a rule without timers: the rule or this process is new.

    Editing a rule replaces it. To avoid flapping, a new rule inherits the violators of the strategy if another rule of
    the strategy was removed.
    """
    rule, settled = strategy.rules[number], previous.settled(table.nodes) & blank
    violated_before = settled
    if previous.state is not None and settled.any():
        violated_before = settled & previous.reindex.mask(
            _inherited(previous.state, strategy, number)
        )
    without_verdict = blank & ~settled
    if rule.labels:  # among several labeling rules, it is the one whose label the node has
        without_verdict |= violated_before
    return (violated_before & ~without_verdict) | previous.labelled(rule, without_verdict)


def _inherited(state: StrategyState, strategy: Strategy, number: int) -> Bools:
    """Return the violators that a rule inherits, over the nodes of the previous state."""
    old = _index(state.rules, strategy.rules, number)
    if old >= 0:
        return state.found.per_rule[:, old]
    if {*_keys(state.rules)} - {*_keys(strategy.rules)}:
        return state.found.violated
    return np.zeros_like(state.found.violated)


def _index(old: Sequence[Rule], new: Sequence[Rule], number: int) -> int:
    """Return the previous index of a rule; -1 if it is new."""
    if old is new:
        return number
    key, known = _keys(new)[number], _keys(old)
    return known.index(key) if key in known else -1


def _keys(rules: Sequence[Rule]) -> list[_RuleKey]:
    counts: Counter[tuple[str, Operator, float]] = Counter()
    keys = []
    for rule in rules:
        same = (rule.metric, rule.operator, rule.target)
        keys.append(_RuleKey(*same, counts[same]))
        counts[same] += 1
    return keys

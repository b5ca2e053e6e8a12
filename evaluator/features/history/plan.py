"""What changed between two successive decisions: transitions of nodes, and edits of policies. Unchanged parts are the same objects,
and cost a comparison of identities.
"""

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex, Positions, Reindex
from evaluator.core.policy.causes import cause_at
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.durations import Phase, Phases, StrategyState
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy, Rule
from evaluator.core.readings.reported import CauseOf, no_cause
from evaluator.features.history.records import Cause, Why

_CLEAR, _VIOLATED = np.uint8(Phase.CLEAR), np.uint8(Phase.VIOLATED)
_READING, _MISSING, _RECORDED, _FIRST, _EDITED = map(
    int, (Why.READING, Why.MISSING, Why.RECORDED, Why.FIRST, Why.EDITED)
)
"""As numbers: reading a member of an enumeration is slow."""
_STEP = 500
"""Transitions made in one step."""
_FEW = 50
"""Transitions of a strategy up to which making them one by one is faster."""
_PHASES = (int(Phase.VIOLATED), int(Phase.CLEAR)), (int(Phase.CLEAR), int(Phase.VIOLATED))
"""Before and after, of a violation that ends and of one that begins."""
_SAME = 100
"""Policies looked at in one step where nothing changed."""


class Transition(NamedTuple):
    """A node that moved to another phase. `cause`: the rule that decided; `reading`: of its metric, NaN where there is none."""

    node: str
    was: int
    now: int
    why: int
    cause: Cause | None
    reading: float


class Transitions(NamedTuple):
    """The nodes that one strategy of a policy moved to another phase."""

    policy: Policy
    strategy: StrategyName
    moves: Sequence[Transition]


class Edit(NamedTuple):
    """A policy was created, edited or deleted."""

    policy: Policy
    what: str


Change = Transitions | Edit


class Causes:
    """The causes of the rules of strategies, made once while a policy stays the same object."""

    def __init__(self) -> None:
        self._known: dict[tuple[PolicyKey, StrategyName], tuple[object, tuple[Cause, ...]]] = {}

    def rule_causes(
        self, key: PolicyKey, name: StrategyName, rules: tuple[Rule, ...]
    ) -> tuple[Cause, ...]:
        """Return the cause of each rule."""
        known = self._known.get((key, name))
        if known is None or known[0] is not rules:
            known = self._known[key, name] = (rules, _causes(rules))
        return known[1]

    def forget(self, key: PolicyKey) -> None:
        """Drop those of a deleted policy."""
        for name in StrategyName:
            self._known.pop((key, name), None)


def changes(
    before: Decisions,
    after: Decisions,
    causes: Causes,
    cause_of: CauseOf = no_cause,
    guard: Guard = UNGUARDED,
) -> Iterator[Change | None]:
    """Yield what changed, and None between the steps of one policy's strategy. `cause_of`: of readings, such as their devices.

    `guard` takes what the comparison of one policy, or the cause of one reading, raises.
    """
    over = _Compared(before.table, after.table, causes, cause_of, guard)
    for key in sorted(before.policies.keys() - after.policies.keys()):
        gone = before.policies[key]
        yield Edit(gone.policy, "deleted")
        yield from over.ended(gone, gone.states, Why.POLICY_GONE)
        causes.forget(key)
    for number, (key, decision) in enumerate(after.policies.items()):
        old = before.policies.get(key)
        if old is not None and over.same_nodes and decision.same_as(old):
            if number % _SAME == 0:
                yield None
            continue
        yield from guard.steps(str(key), _of_policy(before, key, old, decision, over))
        yield None


def _of_policy(
    before: Decisions, key: PolicyKey, old: Decision | None, decision: Decision, over: "_Compared"
) -> Generator[Change | None, None, None]:
    if edit := _edit(before, key, old, decision.policy):
        yield edit
    if old is not None and (removed := old.states.keys() - decision.states.keys()):
        states = {name: old.states[name] for name in sorted(removed)}
        yield from over.ended(old, states, Why.EDITED)
    if old is not None and not over.same_nodes:
        kept = {name: old.states[name] for name in old.states if name in decision.states}
        yield from over.on_gone_nodes(old, kept)
    for name, state in decision.states.items():
        yield from over.strategy(old, decision, name, state)


def _edit(before: Decisions, key: PolicyKey, old: Decision | None, policy: Policy) -> Edit | None:
    """Return how the object of a policy changed. A first decision creates no policy: it finds it."""
    if old is None:
        return Edit(policy, "created") if before.policies or len(before.table.nodes) else None
    known = old.policy
    if known.uid != policy.uid:
        return Edit(policy, "replaced by another object")
    if known.generation != policy.generation:
        return Edit(policy, f"edited: generation {policy.generation}")
    if known.observed != policy.observed:
        return Edit(policy, "observed from now on" if policy.observed else "enforced from now on")
    return None


class _Compared:
    """Compares strategies over the nodes of two decisions."""

    def __init__(
        self,
        before: MetricTable,
        after: MetricTable,
        causes: Causes,
        cause_of: CauseOf,
        guard: Guard,
    ) -> None:
        self._before, self._after = before, after
        self._causes = causes
        self._cause_of = cause_of
        self._guard = guard
        self.same_nodes = before.nodes is after.nodes
        self._forward = Reindex(before.nodes, after.nodes)
        self._backward = Reindex(after.nodes, before.nodes)

    def strategy(
        self, old: Decision | None, new: Decision, name: StrategyName, state: StrategyState
    ) -> Iterator[Transitions | None]:
        """Yield the transitions of one strategy, and None between steps."""
        known = old.states.get(name) if old else None
        all_of = new.policy.strategies[name].all_of
        if old is None or known is None:
            positions = state.phases(all_of=all_of).nonzero()[0]
            was = np.zeros(len(positions), np.uint8)
        elif self.same_nodes and old.policy.specified_as(new.policy):
            if self._same(old, new, name):
                return
            positions = state.may_differ(known).nonzero()[0]
            if not positions.size:
                return
            if len(positions) <= _FEW and self._is_plain(known) and self._is_plain(state):
                yield Transitions(new.policy, name, self._plain(known, new, name, positions))
                return
            if not state.timers:  # violated or clear, and the contrary of before
                now = np.where(state.found.violated[positions], _VIOLATED, _CLEAR)
                yield from self._steps(old, known, new, name, positions, _VIOLATED - now, now)
                return
            was = known.phases(all_of=all_of, at=positions)
        else:
            now = state.phases(all_of=all_of)
            every = self._moved(known.phases(all_of=old.policy.strategies[name].all_of))
            positions = (now != every).nonzero()[0]
            was = every[positions]
        now = state.phases(all_of=all_of, at=positions)
        if not (changed := was != now).all():
            positions, was, now = positions[changed], was[changed], now[changed]
        yield from self._steps(old, known, new, name, positions, was, now)

    def _is_plain(self, state: StrategyState) -> bool:
        """Return whether each node is in violation by a reading, or clear."""
        nodes, width = self._after.nodes, len(state.rules)
        found, none = state.found, nodes.no_rules(width)
        only_readings = found.missing is none and found.from_previous_leader is none
        return bool(width) and not state.timers and only_readings and state.settled is nodes.all

    def _plain(
        self, known: StrategyState, new: Decision, name: StrategyName, positions: Positions
    ) -> list[Transition]:
        """Return the transitions of a few nodes between two plain states, without an array for each of their fields."""
        state, table = new.states[name], self._after
        causes = self._causes.rule_causes(new.policy.key, name, state.rules)
        moves = []
        for position in positions.tolist():
            violated = bool(state.found.violated[position])
            per_rule = (state if violated else known).found.per_rule
            cause = causes[int(per_rule[position].argmax()) if len(causes) > 1 else 0]
            column = table.prepared.get(cause.metric)
            reading = float(column.values[position]) if column else math.nan
            was, now = _PHASES[violated]
            if violated:
                cause = self._with_origin(cause, position)
            moves.append(Transition(table.nodes[position], was, now, _READING, cause, reading))
        return moves

    def _steps(
        self,
        old: Decision | None,
        known: StrategyState | None,
        new: Decision,
        name: StrategyName,
        positions: Positions,
        was: Phases,
        now: Phases,
    ) -> Iterator[Transitions | None]:
        """Yield the transitions of nodes at some positions, and None between steps."""
        state = new.states[name]
        for begin in range(0, len(positions), _STEP):
            if begin:
                yield None
            some = slice(begin, begin + _STEP)
            moves = self._moves(old, known, new, name, state, positions[some], was[some], now[some])
            yield Transitions(new.policy, name, moves)

    def _moves(
        self,
        old: Decision | None,
        known: StrategyState | None,
        new: Decision,
        name: StrategyName,
        state: StrategyState,
        positions: Positions,
        was: Phases,
        now: Phases,
    ) -> list[Transition]:
        which = _deciding(state, positions)
        why = _why(state, positions, which, self._after.nodes)
        if known is None:
            why[why == _READING] = _FIRST if old is None else _EDITED
        else:
            if known.settled is not self._before.nodes.all:
                first = ~self._forward.mask(known.settled)[positions]
                why[first & (why == _READING)] = _FIRST
            if old is not None and old.policy.generation != new.policy.generation:
                why[why == _READING] = _EDITED
        causes = self._causes.rule_causes(new.policy.key, name, state.rules)
        deciding = [
            self._with_origin(causes[n], position) if n >= 0 else None
            for n, position in zip(which.tolist(), positions.tolist(), strict=True)
        ]
        if known is not None:
            earlier = causes if known.rules is state.rules else _causes(known.rules)
            cleared = (now == _CLEAR).nonzero()[0]
            if cleared.size:
                by = _deciding(known, self._place(positions[cleared])).tolist()
                for index, number in zip(cleared.tolist(), by, strict=True):
                    deciding[index] = earlier[number] if number >= 0 else None
        return _transitions(self._after, positions, was, now, why, deciding)

    def _with_origin(self, cause: Cause, position: int) -> Cause:
        """Return the cause with what the reading of the node at a position comes from."""
        about = f"cause of {cause.metric} on {self._after.nodes[position]}"
        look_up = partial(cause_at, self._after, cause.metric, position, self._cause_of)
        origin = self._guard.run(about, look_up, "")
        return cause._replace(comes_from=origin) if origin else cause

    def ended(
        self, old: Decision, states: Mapping[StrategyName, StrategyState], why: Why
    ) -> Iterator[Transitions | None]:
        """Yield the transitions to clear of strategies that exist no more."""
        for name, state in states.items():
            was = state.phases(all_of=old.policy.strategies[name].all_of)
            yield from self._left(old.policy, name, state, was, was.nonzero()[0], why)

    def on_gone_nodes(
        self, old: Decision, states: Mapping[StrategyName, StrategyState]
    ) -> Iterator[Transitions | None]:
        """Yield the transitions of nodes that exist no more."""
        gone = ~self._backward.mask(self._after.nodes.all)
        for name, state in states.items():
            was = state.phases(all_of=old.policy.strategies[name].all_of)
            positions = ((was != _CLEAR) & gone).nonzero()[0]
            yield from self._left(old.policy, name, state, was, positions, Why.NODE_GONE)

    def _left(
        self,
        policy: Policy,
        name: StrategyName,
        state: StrategyState,
        was: Phases,
        positions: Positions,
        why: Why,
    ) -> Iterator[Transitions | None]:
        """Yield transitions to clear of nodes at some positions."""
        causes = _causes(state.rules)
        for begin in range(0, len(positions), _STEP):
            some = positions[begin : begin + _STEP]
            which = _deciding(state, some).tolist()
            deciding = [causes[n] if n >= 0 else None for n in which]
            same, clear = np.full(len(some), why, np.uint8), np.zeros(len(some), np.uint8)
            moves = _transitions(self._before, some, was[some], clear, same, deciding)
            yield Transitions(policy, name, moves)
            yield None
        yield None

    def _same(self, old: Decision, new: Decision, name: StrategyName) -> bool:
        """Return whether the phases of all nodes are the same, as far as identities show."""
        one, other = old.states[name], new.states[name]
        if one is other:
            return True
        if any(timers is not one.timers.get(number) for number, timers in other.timers.items()):
            return False
        if name in new.violations:
            return old.violations[name] is new.violations[name]
        return one.found is other.found

    def _moved(self, found: Phases) -> Phases:
        """Return phases over the current nodes; clear on new ones."""
        if self._forward.is_identity:
            return found
        return np.nan_to_num(self._forward.values(found.astype(np.float64))).astype(np.uint8)

    def _place(self, positions: Positions) -> Positions:
        """Return the earlier positions of nodes that were there before."""
        if self._forward.is_identity:
            return positions
        return self._before.nodes.find([self._after.nodes[p] for p in positions.tolist()])


def _deciding(state: StrategyState, positions: Positions) -> Positions:
    """Return the index of the rule that put each node into its phase: the first that is violated, else the first pending."""
    if not state.rules:
        return np.full(len(positions), -1)
    first = state.found.per_rule[positions].argmax(axis=1)
    violated = state.found.violated[positions]
    if not state.timers or violated.all():
        return np.where(violated, first, -1)
    found = np.full(len(positions), -1)
    for number in sorted(state.timers, reverse=True):
        found[state.timers[number].pending[positions]] = number
    return np.where(violated, first, found)


def _why(state: StrategyState, positions: Positions, which: Positions, nodes: NodeIndex) -> Phases:
    """Return why each node is in violation of its rule; READING where it is not."""
    found, none = np.zeros(len(positions), np.uint8), nodes.no_rules(len(state.rules))
    tables = ((state.found.from_previous_leader, _RECORDED), (state.found.missing, _MISSING))
    for table, why in tables:
        if table is not none and state.rules:
            found[table[positions, np.maximum(which, 0)] & (which >= 0)] = why
    return found


def _causes(rules: tuple[Rule, ...]) -> tuple[Cause, ...]:
    return tuple(Cause(rule.shown or rule.metric, rule.target, str(rule)) for rule in rules)


def _transitions(
    table: MetricTable,
    positions: Positions,
    was: Phases,
    now: Phases,
    why: Phases,
    causes: Sequence[Cause | None],
) -> list[Transition]:
    """Return transitions with the readings of the metrics that decided."""
    nodes, columns = table.nodes, table.prepared
    fields = zip(positions.tolist(), was.tolist(), now.tolist(), why.tolist(), causes, strict=True)
    moves = []
    for position, before, after, reason, cause in fields:
        column = columns.get(cause.metric) if cause else None
        reading = float(column.values[position]) if column else math.nan
        moves.append(Transition(nodes[position], before, after, reason, cause, reading))
    return moves

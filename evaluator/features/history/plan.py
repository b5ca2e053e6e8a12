"""What changed between two successive decisions: transitions of nodes, and edits of policies. Unchanged parts are the same objects,
and cost a comparison of identities.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Floats, NodeIndex, Positions, Reindex
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.durations import Phase, Phases, StrategyState
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy, Rule
from evaluator.core.readings.column import Bools
from evaluator.features.history.records import Cause, Why


class Transitions(NamedTuple):
    """The nodes that one strategy of a policy moved to another phase; arrays have shape (transitions,).

    `positions` are those in `nodes`. `which`: the rule that decided, an index into `causes`; -1 for none. `readings` are
    those of its metric; NaN where there is none.
    """

    policy: Policy
    strategy: StrategyName
    nodes: NodeIndex
    positions: Positions
    was: Phases
    now: Phases
    why: Phases
    causes: tuple[Cause, ...]
    which: Positions
    readings: Floats


class Edit(NamedTuple):
    """A policy was created, edited or deleted."""

    policy: Policy
    what: str


Change = Transitions | Edit


def changes(before: Decisions, after: Decisions) -> Iterator[Change | None]:
    """Yield what changed, and None between the steps of one policy's strategy."""
    over = _Compared(before.table, after.table)
    for key in sorted(before.policies.keys() - after.policies.keys()):
        gone = before.policies[key]
        yield Edit(gone.policy, "deleted")
        yield from over.ended(gone, gone.states, Why.POLICY_GONE)
    for key, decision in after.policies.items():
        old = before.policies.get(key)
        if edit := _edit(before, key, old, decision.policy):
            yield edit
        if old is not None and (removed := old.states.keys() - decision.states.keys()):
            states = {name: old.states[name] for name in sorted(removed)}
            yield from over.ended(old, states, Why.EDITED)
        if old is not None:
            kept = {name: old.states[name] for name in old.states if name in decision.states}
            yield from over.on_gone_nodes(old, kept)
        for name, state in decision.states.items():
            yield over.strategy(old, decision, name, state)
        yield None


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

    def __init__(self, before: MetricTable, after: MetricTable) -> None:
        self._before, self._after = before, after
        self._forward = Reindex(before.nodes, after.nodes)
        self._backward = Reindex(after.nodes, before.nodes)

    def strategy(
        self, old: Decision | None, new: Decision, name: StrategyName, state: StrategyState
    ) -> Transitions | None:
        """Return the transitions of one strategy; None if there are none."""
        known = old.states.get(name) if old else None
        if old is not None and known is not None and self._same(old, new, name):
            return None
        now = state.phases(all_of=new.policy.strategies[name].all_of)
        was, why = np.zeros_like(now), np.zeros_like(now)
        if old is not None and known is not None:
            was = self._forward_phases(known.phases(all_of=old.policy.strategies[name].all_of))
        changed = (was != now).nonzero()[0]
        if not changed.size:
            return None
        into = now[changed] != Phase.CLEAR
        which = np.full(len(changed), -1)
        deciding = _deciding(state, changed[into])
        which[into] = deciding
        rules: tuple[Rule, ...] = state.rules
        if known is not None and not into.all():
            places = self._place(changed[~into])
            which[~into] = len(rules) + _deciding(known, places)
            rules += known.rules
        why = np.zeros(len(changed), np.uint8)
        why[into] = _why(state, changed[into], deciding)
        if known is not None:
            first = ~self._forward.mask(known.settled)[changed]
            why[into & first & (why == Why.READING)] = Why.FIRST
        if known is None:
            why[into & (why == Why.READING)] = Why.FIRST if old is None else Why.EDITED
        elif old is not None and old.policy.generation != new.policy.generation:
            why[why == Why.READING] = Why.EDITED
        return self._made(new.policy, name, changed, was[changed], now[changed], why, which, rules)

    def ended(
        self, old: Decision, states: Mapping[StrategyName, StrategyState], why: Why
    ) -> Iterator[Transitions | None]:
        """Yield the transitions to clear of strategies that exist no more."""
        for name, state in states.items():
            was = state.phases(all_of=old.policy.strategies[name].all_of)
            changed = was.nonzero()[0]
            if changed.size:
                yield self._left(old.policy, name, state, was, changed, why)
            yield None

    def on_gone_nodes(
        self, old: Decision, states: Mapping[StrategyName, StrategyState]
    ) -> Iterator[Transitions | None]:
        """Yield the transitions of nodes that exist no more."""
        if self._backward.is_identity:
            return
        gone = ~self._backward.mask(self._after.nodes.all)
        for name, state in states.items():
            was = state.phases(all_of=old.policy.strategies[name].all_of)
            changed = ((was != Phase.CLEAR) & gone).nonzero()[0]
            if changed.size:
                yield self._left(old.policy, name, state, was, changed, Why.NODE_GONE)
            yield None

    def _left(
        self,
        policy: Policy,
        name: StrategyName,
        state: StrategyState,
        was: Phases,
        changed: Positions,
        why: Why,
    ) -> Transitions:
        which = _deciding(state, changed)
        return Transitions(
            policy,
            name,
            self._before.nodes,
            changed,
            was[changed],
            np.zeros(len(changed), np.uint8),
            np.full(len(changed), why, np.uint8),
            *_causes(state.rules, which, self._before, changed),
        )

    def _made(
        self,
        policy: Policy,
        name: StrategyName,
        changed: Positions,
        was: Phases,
        now: Phases,
        why: Phases,
        which: Positions,
        rules: tuple[Rule, ...],
    ) -> Transitions:
        causes = _causes(rules, which, self._after, changed)
        return Transitions(policy, name, self._after.nodes, changed, was, now, why, *causes)

    def _same(self, old: Decision, new: Decision, name: StrategyName) -> bool:
        """Return whether the phases of all nodes are the same, as far as identities show."""
        if self._before.nodes is not self._after.nodes or old.policy is not new.policy:
            return False
        one, other = old.states[name], new.states[name]
        if any(timers is not one.timers.get(number) for number, timers in other.timers.items()):
            return False
        if name in new.violations:
            return old.violations[name] is new.violations[name]
        return one.found.same(other.found)

    def _forward_phases(self, found: Phases) -> Phases:
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
    found = np.full(len(positions), -1)
    for number in reversed(range(len(state.rules))):
        if (timers := state.timers.get(number)) is not None:
            found[timers.pending[positions]] = number
    violated = state.found.violated[positions]
    first = np.argmax(state.found.per_rule[positions], axis=1) if state.rules else found
    return np.where(violated, first, found)


def _why(state: StrategyState, positions: Positions, which: Positions) -> Phases:
    """Return why each node is in violation of its rule."""
    found = np.zeros(len(positions), np.uint8)
    rule = np.maximum(which, 0)
    found[_at(state.found.from_previous_leader, positions, rule)] = Why.RECORDED
    found[_at(state.found.missing, positions, rule)] = Why.MISSING
    return found


def _at(table: Bools, positions: Positions, rules: Positions) -> Bools:
    marked: Bools = table[positions, rules]
    return marked


def _causes(
    rules: tuple[Rule, ...], which: Positions, table: MetricTable, positions: Positions
) -> tuple[tuple[Cause, ...], Positions, Floats]:
    """Return the rules that decided, the index of each node's, and the readings of their metrics."""
    used = np.unique(which[which >= 0])
    readings = np.full(len(positions), np.nan)
    causes = []
    for number in used.tolist():
        rule = rules[number]
        causes.append(Cause(rule.metric, rule.target, str(rule)))
        if rule.metric in table.columns:
            where = which == number
            readings[where] = table.column(rule.metric).values[positions[where]]
    return tuple(causes), np.where(which >= 0, np.searchsorted(used, which), -1), readings

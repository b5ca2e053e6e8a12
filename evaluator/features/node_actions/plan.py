"""Decides which nodes get which taints and conditions, from the decisions and what the nodes have now."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.model.arrays import Floats
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Mask, NodeMask, Reindex, union
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.label_sets import LabelAssignment, LabelAssignments, assignments_of
from evaluator.core.policy.strategies import STRONGEST_FIRST, StrategyName
from evaluator.core.policy.types import Policy
from evaluator.features.node_actions import names
from evaluator.features.node_actions.annotations import (
    CONDITION,
    TAINT,
    TaintEffect,
    TaintsAndConditions,
)
from evaluator.features.node_actions.limit import Choice, ClusterLimit, choose, matchable
from evaluator.features.node_actions.report import condition_conflicts
from evaluator.features.node_actions.types import (
    VALUE,
    ActionPlan,
    ActionSettings,
    Observed,
    ObservedMasks,
    PolicyActions,
    taint_name,
)
from plimsoll.steps import Steps

NOT_PLANNED = "an internal error: no taint or condition is set or taken off, and no pod evicted; the evaluator's log has the error"
"""The problem of a policy whose plan raised; the text is constant (used in Events)."""


class ActingPolicy:
    """The actions of one policy."""

    def __init__(
        self,
        decision: Decision,
        decisions: Decisions,
        where: ObservedMasks,
        settings: ActionSettings,
    ) -> None:
        self.key = decision.policy.key
        self._actions = decision.policy.actions.part(TaintsAndConditions)
        self._settings = settings
        self._where = where
        self._nodes = nodes = decisions.table.nodes
        states = decision.states
        self._violated = {
            name: states[name].found.violated for name in STRONGEST_FIRST if name in states
        }
        self._evicting: Mask = self._violated.get(StrategyName.DESCHEDULE, nodes.none)
        self._violating = union(self._violated.values(), nodes)
        self._frozen = not settings.stops.permit(self.key)
        unreported = decisions.table.unreported(decision.policy.metrics)
        self._kept = nodes.all if self._frozen or decision.undecided else unreported
        self._matchable = matchable(decision, self._violating, decisions.table)
        self._taint = names.taint_key(settings.prefix, decision.policy.key)
        self.condition = self._actions.condition
        self._sets_taint = settings.taints and TAINT in self._actions.kinds
        self.sets_condition = (
            settings.conditions
            and CONDITION in self._actions.kinds
            and names.permitted(self.condition, settings.condition_types)
        )
        self._foreign = where.foreign(self.condition) if self.sets_condition else {}
        self._evicts = settings.evict and StrategyName.DESCHEDULE in states

    @property
    def _hard(self) -> bool:
        return self._sets_taint and self._actions.effect.hard

    @property
    def _limits_taints(self) -> bool:
        return self._sets_taint and (self._actions.effect.hard or self._actions.limits_all)

    def present(self, before: PolicyActions | None, reindex: Reindex) -> Mask:
        """Return the nodes that count for the cluster's limit: with a hard taint, or of a policy that evicts with any limited one.

        Evictions leave no trace on the node.
        """
        acted = self._nodes.none
        if self._hard or (self._evicts and self._limits_taints):
            acted = self._where.tainted(self._taint, hard=self._hard)
        if self._evicts and before is not None and before.choice is not None:
            acted = acted | (reindex.mask(before.choice.acted) & self._evicting)
        return acted

    def plan(
        self, before: PolicyActions | None, reindex: Reindex, cluster: ClusterLimit, now: float
    ) -> PolicyActions:
        since = self._since(before, reindex, now)
        limit = self._actions.limit.among(self._matchable)
        made = PolicyActions(self._nodes, self._violating, since, limit, self._matchable)
        if not self._limits_taints and not self._evicts:
            return made
        present = self.present(before, reindex)
        wanted = self._evicting
        if self._limits_taints:
            if not self._hard:
                present = present | self._where.tainted(self._taint)
            wanted = self._violating | (present & self._kept)
        if self._frozen:
            wanted = present
        within = cluster if self._hard or self._evicts else None
        choice = choose(wanted, present, since, most=limit, cluster=within)
        if within is not None:
            within.add(choice.acted)
        return replace(made, choice=choice)

    def _since(self, before: PolicyActions | None, reindex: Reindex, now: float) -> Floats:
        """Return when each node began or ceased to violate the policy: as its condition says, so that all replicas agree."""
        if before is None:
            changed, since = self._violating, np.where(self._violating, now, np.nan)
        else:
            changed = reindex.mask(before.violating) ^ self._violating
            since = np.where(changed, now, reindex.values(before.since))
        for node, known in self._where.conditions.get(self._actions.condition, {}).items():
            position = self._nodes.position.get(node)
            if position is None or known.since is None:
                continue
            if (known.status == "True") == bool(self._violating[position]):
                since[position] = min(known.since, now)
        return since

    def taints(self, made: PolicyActions) -> list[LabelAssignment]:
        """Return the taints of this policy; nodes without a verdict, and all of a frozen policy, keep theirs."""
        if not self._sets_taint:
            return []
        masks: dict[TaintEffect, Mask] = {}
        if self._hard:
            assert made.choice is not None
            acted = made.choice.acted & self._violating
            masks[TaintEffect.NO_SCHEDULE] = acted
            if self._actions.effect is TaintEffect.NO_EXECUTE and self._settings.no_execute:
                masks[TaintEffect.NO_EXECUTE] = acted & self._evicting
        else:
            limited = self._actions.limits_all and made.choice is not None
            soft = (
                self._violating & made.choice.acted if limited and made.choice else self._violating
            )
            # A taint that every node has says nothing.
            masks[TaintEffect.PREFER_NO_SCHEDULE] = self._nodes.none if soft.all() else soft
        assigned = []
        for effect in TaintEffect:
            present = self._where.taints.get((self._taint, effect.value), self._nodes.none)
            mask = (masks.get(effect, self._nodes.none) & ~self._kept) | (present & self._kept)
            name = taint_name(self._taint, effect.value)
            assigned.append(LabelAssignment(name, VALUE, NodeMask(self._nodes, mask)))
        return assigned

    def conditions(
        self, made: PolicyActions, before: ActionPlan, reindex: Reindex
    ) -> list[LabelAssignment]:
        """Return the conditions of this policy: True where it is violated, False where it was.

        Nodes on which another field manager owns the condition are left out.
        """
        kind = self._actions.condition
        free = ~union(self._foreign.values(), self._nodes)
        present = self._where.condition(kind)
        past = assignments_of(before.conditions).by_label
        ever = union(
            [*present.values(), *(reindex.mask(m.mask) for (k, _), m in past.items() if k == kind)],
            self._nodes,
        )
        wanted: dict[str, Mask] = {}
        unnamed = made.violating
        for strategy in STRONGEST_FIRST:
            violated = self._violated.get(strategy, self._nodes.none)
            wanted[names.violated(strategy)] = unnamed & violated
            unnamed = unnamed & ~violated
        wanted[names.NOT_VIOLATED] = ever & ~made.violating
        assigned = []
        for value, where in wanted.items():
            kept = present.get(value, self._nodes.none) & self._kept
            mask = (where & ~self._kept) | kept
            assigned.append(LabelAssignment(kind, value, NodeMask(self._nodes, mask & free)))
        return assigned

    def conflicts(self) -> list[str]:
        """Return which nodes have the condition from another field manager, one sentence for each."""
        return condition_conflicts(self.condition, self._foreign, self._nodes)

    def problems(self, owners: Mapping[str, PolicyKey]) -> list[str]:
        """Return the actions that are not taken because of flags or other policies."""
        kinds, kind = self._actions.kinds, self._actions.condition
        sentences = []
        if TAINT in kinds and not self._settings.taints:
            sentences.append(
                "plimsoll.io/actions: taint: the evaluator runs without --taints: no taint is set"
            )
        if CONDITION in kinds and not self._settings.conditions:
            sentences.append(
                "plimsoll.io/actions: condition: the evaluator runs without --conditions: no condition is set"
            )
        if (
            CONDITION in kinds
            and self._settings.conditions
            and not names.permitted(kind, self._settings.condition_types)
        ):
            sentences.append(
                f"plimsoll.io/condition-type: {kind} does not begin with {names.DOMAIN} and --conditionTypes of the evaluator "
                "does not permit it: no condition is set"
            )
        if (
            self._sets_taint
            and self._actions.effect is TaintEffect.NO_EXECUTE
            and not self._settings.no_execute
        ):
            sentences.append(
                "plimsoll.io/taint-effect: the evaluator runs without --allowNoExecute: NoSchedule is set instead"
            )
        owner = owners.get(kind, self.key)
        if self.sets_condition and owner != self.key:
            sentences.append(
                f"condition {kind} is set by policy {owner}: name another in plimsoll.io/condition-type"
            )
        return sentences


def planning(
    decisions: Decisions,
    observed: Observed,
    before: ActionPlan,
    settings: ActionSettings,
    *,
    now: float,
    guard: Guard = UNGUARDED,
) -> Steps[ActionPlan]:
    """Return the plan at `now` (Unix seconds), in steps of one policy.

    Policies are in the order of their keys. The result depends on `before` only for when a violation began, and for
    the nodes from which pods are evicted. `guard` takes what the plan of one policy raises: what it set stays.
    """
    nodes = decisions.table.nodes
    where, reindex = ObservedMasks(observed, nodes), Reindex(before.nodes, nodes)
    cluster = ClusterLimit(where.hard, settings.most.among(len(nodes)))
    policies: dict[PolicyKey, PolicyActions] = {}
    taints: list[LabelAssignment] = []
    conditions: list[LabelAssignment] = []
    owners: dict[str, PolicyKey] = {}
    yield
    acting: list[tuple[Policy, ActingPolicy | None]] = []
    for key, decision in decisions.enforced.items():
        if _acts(decision, settings):
            begin = partial(_acting, decision, decisions, where, settings, before, reindex)
            nothing: tuple[ActingPolicy | None, Mask] = None, nodes.none
            policy, present = guard.attempt(str(key), begin, nothing)
            cluster.add(present)
            acting.append((decision.policy, policy))
            yield
    for specified, policy in acting:
        key, kind = specified.key, specified.actions.part(TaintsAndConditions).condition
        sets = policy is None or policy.sets_condition
        owns = sets and owners.setdefault(kind, key) == key
        planned: _Planned | None = None
        if policy is not None:
            make = partial(_planned, policy, before, reindex, cluster, now, owners, owns=owns)
            planned = guard.attempt(f"plan of {key}", make, None)
        if planned is None:
            planned = _standing(specified, where, settings, owns=owns)
        yield
        policies[key] = planned.actions
        taints += planned.taints
        conditions += planned.conditions
        yield
    reused = yield from LabelAssignments(nodes, taints).reuse(before.taints)
    states = yield from LabelAssignments(nodes, conditions).reuse(before.conditions)
    acted = int(np.count_nonzero(cluster.acted))
    return ActionPlan(nodes, policies, reused, states, owners, acted)


class _Planned(NamedTuple):
    """What one policy does to nodes, and the taints and conditions that they get."""

    actions: PolicyActions
    taints: Sequence[LabelAssignment]
    conditions: Sequence[LabelAssignment]


def _acting(
    decision: Decision,
    decisions: Decisions,
    where: ObservedMasks,
    settings: ActionSettings,
    before: ActionPlan,
    reindex: Reindex,
) -> tuple[ActingPolicy | None, Mask]:
    policy = ActingPolicy(decision, decisions, where, settings)
    return policy, policy.present(before.policies.get(policy.key), reindex)


def _planned(
    policy: ActingPolicy,
    before: ActionPlan,
    reindex: Reindex,
    cluster: ClusterLimit,
    now: float,
    owners: Mapping[str, PolicyKey],
    *,
    owns: bool,
) -> _Planned:
    made = policy.plan(before.policies.get(policy.key), reindex, cluster, now)
    taints = policy.taints(made)
    conditions = policy.conditions(made, before, reindex) if owns else []
    problems, conflicts = tuple(policy.problems(owners)), tuple(policy.conflicts())
    return _Planned(replace(made, problems=problems, conflicts=conflicts), taints, conditions)


def _standing(
    policy: Policy, where: ObservedMasks, settings: ActionSettings, *, owns: bool
) -> _Planned:
    """Return the plan of a policy whose own raised: what it set on nodes stays."""
    nodes, taint = where.nodes, names.taint_key(settings.prefix, policy.key)
    kind = policy.actions.part(TaintsAndConditions).condition
    taints = [
        LabelAssignment(taint_name(taint, effect.value), VALUE, NodeMask(nodes, present))
        for effect in TaintEffect
        if (present := where.taints.get((taint, effect.value))) is not None
    ]
    conditions = [
        LabelAssignment(kind, value, NodeMask(nodes, present))
        for value, present in (where.condition(kind).items() if owns else ())
    ]
    since = np.full(len(nodes), np.nan)
    nowhere = Choice(nodes.none, 0, by_cluster=False)
    actions = PolicyActions(nodes, nodes.none, since, choice=nowhere, problems=(NOT_PLANNED,))
    return _Planned(actions, taints, conditions)


def _acts(decision: Decision, settings: ActionSettings) -> bool:
    evicts = settings.evict and StrategyName.DESCHEDULE in decision.policy.strategies
    return evicts or bool(decision.policy.actions.part(TaintsAndConditions).kinds)

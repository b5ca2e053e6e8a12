"""Decides which nodes get which taints and conditions, from the decisions and what the nodes have now."""

from dataclasses import replace

import numpy as np

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Reindex
from evaluator.core.model.steps import Steps
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.label_sets import LabelAssignment, LabelAssignments
from evaluator.core.policy.strategies import StrategyName
from evaluator.features.node_actions.annotations import TaintsAndConditions
from evaluator.features.node_actions.limit import ClusterLimit
from evaluator.features.node_actions.policy import ActingPolicy
from evaluator.features.node_actions.types import (
    ActionPlan,
    ActionSettings,
    Observed,
    ObservedMasks,
    PolicyActions,
)


def planning(
    decisions: Decisions,
    observed: Observed,
    before: ActionPlan,
    settings: ActionSettings,
    *,
    now: float,
) -> Steps[ActionPlan]:
    """Return the plan at `now` (Unix seconds), in steps of one policy.

    Policies are in the order of their keys. The result depends on `before` only for when a violation began, and for
    the nodes from which pods are evicted.
    """
    nodes = decisions.table.nodes
    where, reindex = ObservedMasks(observed, nodes), Reindex(before.nodes, nodes)
    cluster = ClusterLimit(where.hard, settings.most.of(len(nodes)))
    policies: dict[PolicyKey, PolicyActions] = {}
    taints: list[LabelAssignment] = []
    conditions: list[LabelAssignment] = []
    owners: dict[str, PolicyKey] = {}
    yield
    acting: list[ActingPolicy] = []
    for key, decision in decisions.enforced.items():
        if _acts(decision, settings):
            one = ActingPolicy(decision, decisions, where, settings)
            cluster.add(one.present(before.policies.get(key), reindex))
            acting.append(one)
            yield
    for one in acting:
        made = one.plan(before.policies.get(one.key), reindex, cluster, now)
        yield
        taints += one.taints(made)
        if one.sets_condition and owners.setdefault(one.condition, one.key) == one.key:
            conditions += one.conditions(made, before, reindex)
        policies[one.key] = replace(
            made, problems=tuple(one.problems(owners)), conflicts=tuple(one.conflicts())
        )
        yield
    reused = yield from LabelAssignments(nodes, taints).reuse(before.taints)
    states = yield from LabelAssignments(nodes, conditions).reuse(before.conditions)
    acted = int(np.count_nonzero(cluster.acted))
    return ActionPlan(nodes, policies, reused, states, owners, acted)


def _acts(decision: Decision, settings: ActionSettings) -> bool:
    evicts = settings.evict and StrategyName.DESCHEDULE in decision.policy.strategies
    return evicts or bool(decision.policy.actions.part(TaintsAndConditions).kinds)

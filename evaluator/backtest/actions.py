"""What the policies would do to nodes over time: taints, evictions, and how often a limit holds them back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.backtest.intervals import Period
from evaluator.backtest.replay import Step
from evaluator.model.names import PolicyKey
from evaluator.model.node_index import Mask, NodeIndex
from evaluator.model.steps import finished
from evaluator.plans.node_actions.plan import planning
from evaluator.plans.node_actions.types import (
    ActionPlan,
    ActionSettings,
    Observed,
    OwnTaint,
    PolicyActions,
)
from evaluator.policy.actions import names
from evaluator.policy.actions.types import Action
from evaluator.policy.decide import Decision
from evaluator.policy.label_sets import LabelAssignment, LabelAssignments
from evaluator.policy.types import Policy, StrategyName


@dataclass(slots=True)
class ActionTotals:
    """Sums of one policy. `limit` and `limited_of`: the limit at the last evaluation, None if none applies."""

    limit: int | None = None
    limited_of: int = 0
    trips: int = 0
    """Times that the limit began to hold nodes back."""
    held_back_seconds: float = 0.0
    taint_writes: int = 0
    nodes_emptied: int = 0
    """Times that a node came to have its pods evicted."""


class ActionReplay:
    """Plans the actions of policies on nodes with the evaluator's own plan; writes take effect at once."""

    def __init__(
        self,
        policies: Sequence[Policy],
        nodes: NodeIndex,
        period: Period,
        settings: ActionSettings,
    ) -> None:
        self.totals = {policy.key: ActionTotals() for policy in policies}
        self._settings = settings
        self._period = period
        self._nodes = nodes
        self._plan = ActionPlan()
        self._observed = Observed()
        self._inputs: list[object] = []
        self._emptying: dict[PolicyKey, Mask] = {}
        self._at = -np.inf
        self._acting = any(
            StrategyName.DESCHEDULE in p.strategies or Action.TAINT in p.actions.kinds
            for p in policies
        )

    def step(self, step: Step) -> None:
        """Advance to the decisions of a step."""
        if not self._acting:
            return
        inputs = _inputs(step)
        if len(inputs) == len(self._inputs) and all(
            one is other for one, other in zip(inputs, self._inputs, strict=True)
        ):
            return
        self._inputs = inputs
        self._until(step.at)
        plan = finished(
            planning(step.decisions, self._observed, self._plan, self._settings, now=step.at)
        )
        inside = self._period.begin <= step.at <= self._period.end
        for key, totals in self.totals.items():
            after, before = plan.policies.get(key), self._plan.policies.get(key)
            if after is None or after.choice is None:
                continue
            totals.limit, totals.limited_of = after.limit, after.of
            if not inside:
                continue
            totals.trips += bool(after.held_back) and not (before and before.held_back)
            totals.taint_writes += self._taint_writes(key, plan)
            emptied = self._emptied(after, step.decisions.policies[key])
            known = self._emptying.get(key, self._nodes.none)
            totals.nodes_emptied += int(np.count_nonzero(emptied & ~known))
            self._emptying[key] = emptied
        if plan.taints is not self._plan.taints:
            self._observed = Observed(_taints(plan.taints))
        self._plan = plan

    def finish(self) -> None:
        """Add the time up to the end of the range."""
        self._until(self._period.end)

    def _until(self, now: float) -> None:
        seconds = self._period.seconds(self._at, now)
        self._at = now
        for key, actions in self._plan.policies.items():
            if actions.held_back:
                self.totals[key].held_back_seconds += seconds

    def _taint_writes(self, key: PolicyKey, plan: ActionPlan) -> int:
        if plan.taints is self._plan.taints:
            return 0
        own = names.taint_key(self._settings.prefix, key)
        before = LabelAssignments(self._nodes, _of(self._plan.taints, own))
        return len(LabelAssignments(self._nodes, _of(plan.taints, own)).changed_since(before))

    def _emptied(self, actions: PolicyActions, decision: Decision) -> Mask:
        state = decision.states.get(StrategyName.DESCHEDULE)
        if state is None or actions.choice is None:
            return self._nodes.none
        return actions.choice.acted & state.found.violated


def _inputs(step: Step) -> list[object]:
    """Return the objects that a plan depends on; equal parts of decisions are the same objects."""
    found: list[object] = []
    for one in step.decisions.policies.values():
        found += [one.dontschedule, one.deschedule, one.unreported]
    found += [column.unusable for column in step.decisions.table.prepared.values()]
    return found


def _of(assignments: LabelAssignments, key: str) -> list[LabelAssignment]:
    return [one for one in assignments.assignments if one.key.rpartition(":")[0] == key]


def _taints(assignments: LabelAssignments) -> Mapping[str, frozenset[OwnTaint]]:
    """Return the taints of each node."""
    found: dict[str, set[OwnTaint]] = {}
    for name, _, nodes in assignments.assignments:
        key, _, effect = name.rpartition(":")
        for node in nodes.names:
            found.setdefault(node, set()).add((key, effect))
    return {node: frozenset(taints) for node, taints in found.items()}

"""What policies do to nodes over a backtest: taints, conditions, evictions, and how often a limit holds them back."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import NodeCondition
from evaluator.core.model.node_index import Mask, NodeIndex
from evaluator.core.options import FeatureOptions
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.label_sets import LabelAssignments
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy
from evaluator.features.node_actions import names
from evaluator.features.node_actions.limit import CLUSTER_LIMIT, NodeLimit, node_limit
from evaluator.features.node_actions.plan import planning
from evaluator.features.node_actions.types import (
    ActionPlan,
    ActionSettings,
    Observed,
    OwnTaint,
    PolicyActions,
)
from lab.adapters.adapter import Adapter, Replayable
from lab.interface import LimitTotals, Period, ReplayTotals, StartReplay
from plimsoll import rfc3339
from plimsoll.flags import option
from plimsoll.steps import finished

ALL_ACTIONS = ActionSettings(
    taints=True, conditions=True, no_execute=True, evict=True, condition_types=("*",)
)
"""The evaluator's flags that permit everything that policies ask for."""


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(FeatureOptions):
    """The flags of `backtest` for actions on nodes."""

    max_acted_nodes: NodeLimit = option(
        "maxActedNodes",
        CLUSTER_LIMIT,
        "as the evaluator's flag",
        metavar="N|N%",
        parse=node_limit,
    )


@dataclass(slots=True)
class _Totals:
    """Sums of one policy. `limit` and `limited_of`: the last limit among nodes with readings; None if there is none."""

    limit: int | None = None
    limited_of: int = 0
    trips: int = 0
    """Times that the limit began to hold nodes back."""
    held_back_seconds: float = 0.0
    taint_writes: int = 0
    condition_writes: int = 0
    nodes_emptied: int = 0
    """Times that a node came to have its pods evicted."""


_MOST_PLANS = 10
"""Plans at one moment: a taint that is taken off makes room for another node, which takes a second plan."""


class ActionReplay:
    """Plans the actions of policies on nodes with the evaluator's own plan; writes take effect at once."""

    def __init__(
        self,
        settings: ActionSettings,
        policies: Sequence[Policy],
        nodes: NodeIndex,
        period: Period,
    ) -> None:
        self._totals = {policy.key: _Totals() for policy in policies}
        self._settings = settings
        self._period = period
        self._nodes = nodes
        self._plan = ActionPlan()
        self._observed = Observed()
        self._inputs: list[object] = []
        self._emptying: dict[PolicyKey, Mask] = {}
        self._at = -np.inf
        self._acting = any(
            StrategyName.DESCHEDULE in p.strategies or p.actions.kinds for p in policies
        )

    @property
    def plan(self) -> ActionPlan:
        """The plan after the last step."""
        return self._plan

    def totals(self, policy: PolicyKey) -> ReplayTotals:
        """Return what was done for a policy so far."""
        sums = self._totals[policy]
        limit = None
        if sums.limit is not None:
            limit = LimitTotals(sums.limit, sums.limited_of, sums.trips, sums.held_back_seconds)
        writes = {
            "taints": sums.taint_writes,
            "conditions": sums.condition_writes,
            "nodesEmptied": sums.nodes_emptied,
        }
        return ReplayTotals(limit, writes)

    def step(self, at: float, decisions: Decisions) -> None:
        """Advance to the decisions at a moment (Unix seconds)."""
        if not self._acting:
            return
        inputs = _inputs(decisions)
        if len(inputs) == len(self._inputs) and all(
            one is other for one, other in zip(inputs, self._inputs, strict=True)
        ):
            return
        self._inputs = inputs
        self._until(at)
        inside = self._period.begin <= at <= self._period.end
        before, plan = self._plan, self._settle(at, decisions, inside=inside)
        for key, totals in self._totals.items():
            after, earlier = plan.policies.get(key), before.policies.get(key)
            if after is None or after.choice is None:
                continue
            if after.of:  # without any reading there is nothing to limit
                totals.limit, totals.limited_of = after.limit, after.of
            emptied = self._emptied(after, decisions.policies[key])
            if inside:
                totals.trips += bool(after.held_back) and not (earlier and earlier.held_back)
                known = self._emptying.get(key, self._nodes.none)
                totals.nodes_emptied += int(np.count_nonzero(emptied & ~known))
            self._emptying[key] = emptied

    def _settle(self, at: float, decisions: Decisions, *, inside: bool) -> ActionPlan:
        """Plan until there is nothing to write, as after each write live."""
        for _ in range(_MOST_PLANS):
            before = self._plan
            plan = self._plan = finished(
                planning(decisions, self._observed, before, self._settings, now=at)
            )
            if plan.taints is before.taints and plan.conditions is before.conditions:
                break
            if inside:
                self._count_writes(before, plan)
            self._observed = Observed(_taints(plan.taints), self._conditions(plan, at))
        return self._plan

    def _count_writes(self, before: ActionPlan, plan: ActionPlan) -> None:
        for key, totals in self._totals.items():
            taints = {names.taint_key(self._settings.prefix, key)}
            totals.taint_writes += self._changed(before.taints, plan.taints, taints)
            kinds = {
                kind for kind, owner in {**before.owners, **plan.owners}.items() if owner == key
            }
            totals.condition_writes += self._changed(before.conditions, plan.conditions, kinds)

    def _changed(
        self, before: LabelAssignments, after: LabelAssignments, own: Collection[str]
    ) -> int:
        """Return the number of nodes on which taints or conditions of some keys change."""
        if after is before:
            return 0
        mine, earlier = (
            LabelAssignments(
                self._nodes,
                [
                    assignment
                    for assignment in some.assignments
                    if assignment.key.partition(":")[0] in own
                ],
            )
            for some in (after, before)
        )
        return len(mine.changed_since(earlier))

    def _conditions(self, plan: ActionPlan, now: float) -> dict[str, dict[str, NodeCondition]]:
        """Return the conditions of a plan as written to nodes: with times of whole seconds."""
        conditions: dict[str, dict[str, NodeCondition]] = {}
        for kind, state, nodes in plan.conditions.assignments:
            made = NodeCondition.in_state(kind, state)
            since = plan.policies[plan.owners[kind]].since
            known = self._observed.conditions.get(kind, {})
            for node in nodes.names:
                old = known.get(node)
                at = float(since[self._nodes.position[node]])
                written = rfc3339.parse(rfc3339.seconds(now if np.isnan(at) else at))
                kept = old.since if old and old.status == made.status else written
                conditions.setdefault(kind, {})[node] = made._replace(since=kept)
        return conditions

    def finish(self) -> None:
        """Add the time up to the end of the range."""
        self._until(self._period.end)

    def _until(self, now: float) -> None:
        seconds = self._period.seconds(self._at, now)
        self._at = now
        for key, actions in self._plan.policies.items():
            if actions.held_back:
                self._totals[key].held_back_seconds += seconds

    def _emptied(self, actions: PolicyActions, decision: Decision) -> Mask:
        state = decision.states.get(StrategyName.DESCHEDULE)
        if state is None or actions.choice is None:
            return self._nodes.none
        return actions.choice.acted & state.found.violated


def _inputs(decisions: Decisions) -> list[object]:
    """Return the objects that a plan depends on; equal parts of decisions are the same objects."""
    inputs: list[object] = []
    for decision in decisions.policies.values():
        inputs += [decision.dontschedule, decision.deschedule, decision.unreported]
    inputs += [column.unusable for column in decisions.table.prepared.values()]
    return inputs


def _taints(assignments: LabelAssignments) -> Mapping[str, frozenset[OwnTaint]]:
    """Return the taints of each node."""
    by_node: dict[str, set[OwnTaint]] = {}
    for name, _, nodes in assignments.assignments:
        key, _, effect = name.rpartition(":")
        for node in nodes.names:
            by_node.setdefault(node, set()).add((key, effect))
    return {node: frozenset(taints) for node, taints in by_node.items()}


def replay(options: ReplayOptions) -> StartReplay:
    """Return what starts a replay with these flags."""
    return partial(ActionReplay, replace(ALL_ACTIONS, most=options.max_acted_nodes))


ADAPTER = Adapter(replayable=Replayable(options=ReplayOptions, start=replay))

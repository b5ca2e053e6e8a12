"""Writes the taints and conditions of nodes as the planner has them, once there is a plan."""

import math
from collections.abc import Iterator, Mapping

from prometheus_client import Counter

from evaluator.core.kube.transport import KubeError
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.model.events import EventSpec
from evaluator.core.model.node import Node, NodeCondition
from evaluator.core.model.node_labels import FIELD_MANAGER
from evaluator.core.policy.causes import violation_message
from evaluator.core.policy.types import Policy
from evaluator.core.readings.reported import CauseOf, no_cause
from evaluator.core.writes.conditions import ConditionApply, ConditionWrites
from evaluator.core.writes.kept import KeptOnNodes
from evaluator.core.writes.node_writer import NodeWriter, WriteContext
from evaluator.features.node_actions import names
from evaluator.features.node_actions.annotations import (
    CONDITION,
    TaintEffect,
    TaintsAndConditions,
)
from evaluator.features.node_actions.planner import NodeActionPlanner
from evaluator.features.node_actions.types import taint_name
from evaluator.features.node_actions.writes import NodePatch, compare_taints

_CONFLICTS = (409, 422)
"""The node changed after it was read: 422 is a failed test of the patch."""
_ATTEMPTS = 3
"""Patches of a node that keeps changing; then it waits like any failed write."""


def taint_writer(
    context: WriteContext,
    planner: NodeActionPlanner,
    writes: Counter,
    *,
    cause_of: CauseOf = no_cause,
) -> NodeWriter[NodePatch]:
    """Return the writer of our taints; without --taints, it takes off those that are left over."""
    taints = Taints(context, planner, cause_of)
    return NodeWriter(
        context,
        "taints",
        plan=lambda: planner.latest.taints,
        compare=taints.compare,
        send=taints.send,
        writes=writes,
        ready=lambda: planner.ready,
        manager_of=lambda node: node.metadata.taints_manager,
        notice=taints.notice,
    )


class Taints:
    """Compares taints and sends patches of them; those in flight count for the limits."""

    def __init__(
        self, context: WriteContext, planner: NodeActionPlanner, cause_of: CauseOf
    ) -> None:
        self._kube = context.kube
        self._planner = planner
        self._decider, self._cause_of = context.decider, cause_of
        self._kept = KeptOnNodes(context.stops, context.decider, self._keys)

    def _keys(self, policy: Policy) -> Iterator[str]:
        """Yield the names of the taints that a policy may set."""
        for prefix in self._planner.prefixes:
            key = names.taint_key(prefix, policy.key)
            yield from (taint_name(key, effect.value) for effect in TaintEffect)

    def compare(self, _name: str, node: Node, desired: Mapping[str, str]) -> NodePatch | None:
        """Return the patch that gives a node the desired taints; None if it has them."""
        prefixes = self._planner.prefixes
        own = {
            taint_name(taint.key, taint.effect): taint.value
            for taint in node.spec.taints or ()
            if taint.key.startswith(prefixes)
        }
        kept = self._kept.desired(desired, own)
        return None if kept is None else compare_taints(node, kept, prefixes)

    def notice(self, patch: NodePatch) -> EventSpec | None:
        """Return an Event: by which policies a patch taints its node, and why; None if it only takes taints off."""
        if not patch.adds:
            return None
        decisions, prefix = self._decider.latest, self._planner.settings.prefix
        added = {key for key, _ in patch.adds}
        reasons = [
            violation_message(decision, decisions.table, patch.node, self._cause_of)
            for policy in self._planner.latest.policies
            if names.taint_key(prefix, policy) in added
            and (decision := decisions.policies.get(policy))
        ]
        return EventSpec("Warning", "NodeTainted", f"tainted: {'; '.join(reasons)}")

    async def send(self, patch: NodePatch) -> Node:
        """Patch the node; if it has changed, read it and compare again. Raises KubeError."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._send(patch)
            except KubeError as error:
                if error.status not in _CONFLICTS:
                    raise
            node = await self._kube.list_node(patch.node)
            if node is None:
                raise KubeError(404, f"node {patch.node} was deleted")
            again = self.compare(patch.node, node, self._planner.latest.taints.get(patch.node, {}))
            if again is None:
                return node
            patch = again
        return await self._send(patch)

    async def _send(self, patch: NodePatch) -> Node:
        self._planner.in_flight[patch.node] = patch.adds
        try:
            return await self._kube.patch_node(patch.node, patch.operations)
        except KubeError as error:
            if not error.status:  # the response is lost; the patch may have arrived
                self._planner.uncertain[patch.node] = patch.adds
            raise
        finally:
            del self._planner.in_flight[patch.node]


def condition_writer(
    context: WriteContext,
    planner: NodeActionPlanner,
    writes: Counter,
    *,
    cause_of: CauseOf = no_cause,
) -> NodeWriter[ConditionApply]:
    """Return the writer of the conditions of policies; a write is a transition."""
    described = PlannedConditions(planner, context.decider, cause_of)
    kept = KeptOnNodes(context.stops, context.decider, condition_keys)
    conditions = ConditionWrites(context.kube, FIELD_MANAGER, described.condition, kept)
    return NodeWriter(
        context,
        "conditions",
        plan=lambda: planner.latest.conditions,
        compare=conditions.compare,
        send=conditions.send,
        writes=writes,
        ready=lambda: planner.ready,
    )


def condition_keys(policy: Policy) -> tuple[str, ...]:
    """Return the types of the conditions that a policy may set."""
    actions = policy.actions.part(TaintsAndConditions)
    return (actions.condition,) if CONDITION in actions.kinds else ()


class PlannedConditions:
    """Messages and transition times of the conditions of policies, from the plan and the decisions as they are now."""

    def __init__(
        self, planner: NodeActionPlanner, decider: DecisionLoop, cause_of: CauseOf
    ) -> None:
        self._planner = planner
        self._decider = decider
        self._cause_of = cause_of

    def condition(self, node: str, kind: str, state: str) -> NodeCondition:
        """Return the condition of a node with a status and reason; one that stands although the plan differs, as it is."""
        standing = self._planner.standing(node, kind)
        if standing is not None and standing.state == state != self._planned(node, kind):
            return standing
        since, message = self._since(kind, node), self._message(kind, node)
        return NodeCondition.in_state(kind, state)._replace(since=since, message=message)

    def _planned(self, node: str, kind: str) -> str | None:
        return self._planner.latest.conditions.get(node, {}).get(kind)

    def _since(self, kind: str, node: str) -> float:
        plan = self._planner.latest
        policy = plan.policies.get(plan.owners[kind]) if kind in plan.owners else None
        position = plan.nodes.position.get(node)
        since = math.nan if policy is None or position is None else float(policy.since[position])
        return self._planner.clock() if math.isnan(since) else since

    def _message(self, kind: str, node: str) -> str:
        decisions = self._decider.latest
        owner = self._planner.latest.owners.get(kind)
        decision = decisions.policies.get(owner) if owner else None
        if decision is None:
            return ""
        return violation_message(decision, decisions.table, node, self._cause_of)

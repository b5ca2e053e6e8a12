"""Reconciles the taints and conditions of nodes with the plan."""

import json
import math
import re
from collections.abc import Mapping
from typing import TypeVar

from prometheus_client import Counter

from evaluator.core.kube.transport import KubeError
from evaluator.core.model.node import Node
from evaluator.core.readings.reported import CauseOf, no_cause
from evaluator.core.writes.node_plan import Comparison
from evaluator.core.writes.node_writer import NodeWriter, WriteContext
from evaluator.features.node_actions import writes
from evaluator.features.node_actions.planner import NodeActionPlanner
from evaluator.features.node_actions.writes import ConditionApply, NodePatch

Apply = TypeVar("Apply")

_CONFLICTS = (409, 422)
"""The node changed after it was read: 422 is a failed test of the patch."""
_ATTEMPTS = 3
"""Patches of a node that keeps changing; then it waits like any failed write."""
_FIELD = re.compile(r"\.status\.conditions\[type=(\"(?:[^\"\\]|\\.)*\")\]")
"""The field of a conflict, as server-side apply writes it."""


class _ActionController(NodeWriter[Apply]):
    """Keeps one part of all nodes as the planner has it, once there is a plan."""

    def __init__(self, context: WriteContext, writes: Counter, planner: NodeActionPlanner) -> None:
        super().__init__(context, writes)
        self._planner = planner

    def _may_write(self) -> bool:
        return super()._may_write() and self._planner.ready


class NodeTaintController(_ActionController[NodePatch]):
    """Keeps our taints of all nodes as planned; without --taints, it takes off those that are left over."""

    what = "taints"

    def _compare(self, _name: str, node: Node, desired: Mapping[str, str]) -> Comparison[NodePatch]:
        return Comparison(writes.compare_taints(node, desired, self._planner.prefixes))

    def _desired(self) -> Mapping[str, Mapping[str, str]]:
        return self._planner.latest.taints

    async def _send(self, apply: NodePatch) -> Node:
        """Patch the node; if it has changed, read it and compare again. Raises KubeError."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._patch(apply)
            except KubeError as error:
                if error.status not in _CONFLICTS:
                    raise
            node = await self._kube.list_node(apply.node)
            if node is None:
                raise KubeError(404, f"node {apply.node} was deleted")
            desired = self._planner.latest.taints.get(apply.node, {})
            again = self._compare(apply.node, node, desired).apply
            if again is None:
                return node
            apply = again
        return await self._patch(apply)

    async def _patch(self, apply: NodePatch) -> Node:
        self._planner.in_flight[apply.node] = apply.adds
        try:
            return await self._kube.patch_node(apply.node, apply.operations)
        except KubeError as error:
            if not error.status:  # the response is lost; the patch may have arrived
                self._planner.uncertain[apply.node] = apply.adds
            raise
        finally:
            del self._planner.in_flight[apply.node]

    def _shown(self, apply: NodePatch) -> str:
        return apply.taints


class NodeConditionController(_ActionController[ConditionApply]):
    """Keeps our conditions of all nodes as planned; a write is a transition."""

    what = "conditions"

    def __init__(
        self,
        context: WriteContext,
        writes: Counter,
        planner: NodeActionPlanner,
        *,
        cause_of: CauseOf = no_cause,
    ) -> None:
        super().__init__(context, writes, planner)
        self._cause_of = cause_of

    def _compare(
        self, _name: str, node: Node, desired: Mapping[str, str]
    ) -> Comparison[ConditionApply]:
        return Comparison(writes.compare_conditions(node, desired))

    def _desired(self) -> Mapping[str, Mapping[str, str]]:
        return self._planner.latest.conditions

    async def _send(self, apply: ConditionApply) -> Node:
        """Apply the conditions; on a conflict, apply again without the conflicting ones."""
        if not apply.states:
            return await self._kube.patch_node_status(apply.node, apply.removal)
        try:
            return await self._apply_states(apply)
        except KubeError as error:
            free = apply.without(conflicting_types(error))
            if not free.states or free.states == apply.states:
                raise
            return await self._apply_states(free)

    async def _apply_states(self, apply: ConditionApply) -> Node:
        body = apply.body(
            lambda kind: self._since(kind, apply.node), lambda kind: self._message(kind, apply.node)
        )
        return await self._kube.apply_node_conditions(apply.node, apply.uid, body)

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
        return writes.violation_message(decision, decisions.table, node, self._cause_of)

    def _shown(self, apply: ConditionApply) -> str:
        return ",".join(f"{kind}={state}" for kind, state in sorted(apply.states.items())) or "none"


def conflicting_types(error: KubeError) -> set[str]:
    """The condition types in the causes of a 409 from server-side apply."""
    fields = (
        _FIELD.match(str(cause.get("field", "")))
        for cause in error.causes
        if cause.get("reason") == "FieldManagerConflict"
    )
    return {json.loads(match[1]) for match in fields if match}

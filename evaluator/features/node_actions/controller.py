"""Reconciles the taints and conditions of nodes with the plan."""

import json
import math
import random
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeVar

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.kube.client import Kube
from evaluator.core.kube.transport import KubeError
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.model.node import Node
from evaluator.core.readings.causes import CauseOf, no_cause
from evaluator.core.report import Journal
from evaluator.core.writes.node_plan import Comparison, NodePlan
from evaluator.core.writes.node_writer import NodeWriter
from evaluator.features.node_actions import writes
from evaluator.features.node_actions.planner import NodeActionMetrics, NodeActionPlanner
from evaluator.features.node_actions.writes import ConditionApply, NodePatch
from plimsoll import logs
from plimsoll.ratelimit import TokenBucket

log = logs.get(__name__)

Apply = TypeVar("Apply")

_CONFLICTS = (409, 422)
"""The node changed after it was read: 422 is a failed test of the patch."""
_ATTEMPTS = 3
"""Patches of a node that keeps changing; then it waits like any failed write."""
_FIELD = re.compile(r"\.status\.conditions\[type=(\"(?:[^\"\\]|\\.)*\")\]")
"""The field of a conflict, as server-side apply writes it."""


class _ActionController(NodeWriter[Node, Apply]):
    """Keeps one part of all nodes as the planner has it, once there is a plan."""

    def __init__(
        self,
        kube: Kube,
        cluster: ClusterCache,
        decider: DecisionLoop,
        metrics: NodeActionMetrics,
        planner: NodeActionPlanner,
        *,
        bucket: TokenBucket,
        is_leader: Callable[[], bool] = lambda: True,
        rng: random.Random | None = None,
        journal: Journal | None = None,
        cause_of: CauseOf = no_cause,
    ) -> None:
        plan = NodePlan[Node, Apply](self._comparison)
        super().__init__(
            cluster,
            decider,
            plan,
            log=log,
            bucket=bucket,
            is_leader=is_leader,
            rng=rng,
            journal=journal,
        )
        self._kube = kube
        self._metrics = metrics
        self._planner = planner
        self._cause_of = cause_of

    def _comparison(self, _name: str, node: Node, desired: Mapping[str, str]) -> Comparison[Apply]:
        return Comparison(self._compare(node, desired))

    @abstractmethod
    def _compare(self, node: Node, desired: Mapping[str, str]) -> Apply | None:
        """Return the write that gives a node what is desired; None if it has it."""

    def _may_write(self) -> bool:
        return super()._may_write() and self._planner.ready

    def _current(self, node: str) -> Node | None:
        return self._cluster.nodes.objects.get(node)


class NodeTaintController(_ActionController[NodePatch]):
    """Keeps our taints of all nodes as planned; without --taints, it takes off those that are left over."""

    what = "taints"

    def _compare(self, node: Node, desired: Mapping[str, str]) -> NodePatch | None:
        return writes.compare_taints(node, desired, self._planner.prefixes)

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
            again = self._compare(node, desired)
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

    def _count(self, result: str) -> None:
        self._metrics.taint_writes.labels(result).inc()

    def _shown(self, apply: NodePatch) -> str:
        return apply.taints


class NodeConditionController(_ActionController[ConditionApply]):
    """Keeps our conditions of all nodes as planned; a write is a transition."""

    what = "conditions"

    def _compare(self, node: Node, desired: Mapping[str, str]) -> ConditionApply | None:
        return writes.compare_conditions(node, desired)

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

    def _count(self, result: str) -> None:
        self._metrics.condition_writes.labels(result).inc()

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

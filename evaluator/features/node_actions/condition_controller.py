"""Reconciles the conditions of nodes that are ours with the plan; a write is a transition."""

import json
import math
import random
import re
import time
from collections.abc import Callable, Mapping

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.kube.client import Kube
from evaluator.core.kube.transport import KubeError
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.model.node import Node
from evaluator.core.report import Journal
from evaluator.core.writes.node_plan import Comparison, NodePlan
from evaluator.core.writes.node_writer import NodeWriter
from evaluator.features.node_actions import conditions
from evaluator.features.node_actions.conditions import ConditionApply
from evaluator.features.node_actions.metrics import NodeActionMetrics
from evaluator.features.node_actions.planner import NodeActionPlanner
from plimsoll import logs
from plimsoll.ratelimit import TokenBucket

log = logs.get(__name__)

_FIELD = re.compile(r"\.status\.conditions\[type=(\"(?:[^\"\\]|\\.)*\")\]")
"""The field of a conflict, as server-side apply writes it."""


class NodeConditionController(NodeWriter[Node, ConditionApply]):
    """Keeps our conditions of all nodes as planned."""

    what = "conditions"

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
        clock: Callable[[], float] = time.time,
    ) -> None:
        plan = NodePlan[Node, ConditionApply](
            lambda _, node, desired: Comparison(conditions.compare(node, desired))
        )
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
        self._clock = clock

    def _may_write(self) -> bool:
        return super()._may_write() and self._planner.ready

    def _desired(self) -> Mapping[str, Mapping[str, str]]:
        return self._planner.latest.conditions

    def _current(self, node: str) -> Node | None:
        return self._cluster.nodes.objects.get(node)

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
        return self._clock() if math.isnan(since) else since

    def _message(self, kind: str, node: str) -> str:
        decisions = self._decider.latest
        owner = self._planner.latest.owners.get(kind)
        decision = decisions.policies.get(owner) if owner else None
        return conditions.message(decision, decisions.table, node) if decision else ""

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
    return {json.loads(found[1]) for found in fields if found}

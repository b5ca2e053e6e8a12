"""Reconciles the taints of nodes with the plan, one patch per node."""

import random
from collections.abc import Callable, Mapping

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.kube.client import Kube
from evaluator.core.kube.transport import KubeError
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.model.node import Node
from evaluator.core.report import Journal
from evaluator.core.writes.node_plan import Comparison, NodePlan
from evaluator.core.writes.node_writer import NodeWriter
from evaluator.features.node_actions import taints
from evaluator.features.node_actions.metrics import NodeActionMetrics
from evaluator.features.node_actions.planner import NodeActionPlanner
from evaluator.features.node_actions.taints import NodePatch
from plimsoll import logs
from plimsoll.ratelimit import TokenBucket

log = logs.get(__name__)

_CONFLICTS = (409, 422)
"""The node changed after it was read: 422 is a failed test of the patch."""
_ATTEMPTS = 3
"""Patches of a node that keeps changing; then it waits like any failed write."""


class NodeTaintController(NodeWriter[Node, NodePatch]):
    """Keeps our taints of all nodes as planned; without --taints, it takes off those that are left over."""

    what = "taints"

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
    ) -> None:
        plan = NodePlan[Node, NodePatch](
            lambda _, node, desired: Comparison(taints.compare(node, desired, planner.prefixes))
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

    def _may_write(self) -> bool:
        return super()._may_write() and self._planner.ready

    def _desired(self) -> Mapping[str, Mapping[str, str]]:
        return self._planner.latest.taints

    def _current(self, node: str) -> Node | None:
        return self._cluster.nodes.objects.get(node)

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
            again = taints.compare(node, desired, self._planner.prefixes)
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

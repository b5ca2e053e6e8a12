"""Takes over, once and only where asked to, the node labels that Telemetry Aware Scheduling wrote."""

import asyncio
from collections.abc import Callable

from evaluator.cache.cluster import ClusterCache
from evaluator.engine.loop import DecisionLoop
from evaluator.kubeapi.client import Kube, now
from evaluator.kubeapi.transport import KubeError
from evaluator.leader.write_fence import NotLeaderError
from evaluator.model.node_labels import LabelApply
from evaluator.plans import adoption
from plimsoll import logs
from plimsoll.ratelimit import TokenBucket

log = logs.get(__name__)

_PAUSE = 2.0
"""Seconds until what failed is tried again: a node that was written meanwhile (409), say."""
_STEP = 200
"""So many nodes are looked at in about a millisecond."""


class LabelMigration:
    """At its first time as the replica that writes, goes through all nodes. `wake()` when that may have come."""

    def __init__(
        self,
        kube: Kube,
        cluster: ClusterCache,
        decider: DecisionLoop,
        *,
        is_leader: Callable[[], bool],
        bucket: TokenBucket,
        pause: float = _PAUSE,
    ) -> None:
        self._kube = kube
        self._cluster = cluster
        self._decider = decider
        self._is_leader = is_leader
        self._bucket = bucket
        self._pause = pause
        self._wake = asyncio.Event()
        self._left: set[str] | None = None

    @property
    def done(self) -> bool:
        """Whether every node was looked at."""
        return self._left is not None and not self._left

    def wake(self) -> None:
        """Look whether it is time soon."""
        self._wake.set()

    async def run(self) -> None:
        """Until every node was looked at; then never again."""
        while not self.done:
            await self._wake.wait()
            self._wake.clear()
            if self._decider.waiting_for or not self._is_leader():
                continue
            if self._left is None:
                self._left = await self._marked()
            for node in sorted(self._left):
                await self._take_over(node)
            if self._left:
                await asyncio.sleep(self._pause)
                self.wake()
        log.info("took over what Telemetry Aware Scheduling had written; --takeOverLabels may go")
        await asyncio.Event().wait()  # a loop of the service does not end

    async def _marked(self) -> set[str]:
        """The nodes with labels that look like TAS's, looked for in turns with everybody else."""
        policies, found = self._policies(), set[str]()
        for number, (name, node) in enumerate(tuple(self._cluster.nodes.objects.items())):
            if number % _STEP == 0:
                await asyncio.sleep(0)
            if adoption.named_by(node.metadata.labels or {}, policies):
                found.add(name)
        return found

    def _policies(self) -> frozenset[str]:
        return frozenset(key.name for key in self._cluster.policies.objects)

    async def _take_over(self, name: str) -> None:
        assert self._left is not None
        policies = self._policies()
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(self._bucket.take(loop.time()))
            node = await self._kube.read_node(name)
            if node is not None and (first := adoption.unowned(node, policies)):
                await self._kube.apply_node_labels(LabelApply(name, node["metadata"]["uid"], first))
                node = await self._kube.read_node(name)
            if node is not None and (keys := adoption.adoptable(node, policies)):
                fields = adoption.adopted(node, keys, at=now())
                await self._kube.put_managed_fields(node, fields)
                log.info("labels taken over", node=name, labels=",".join(sorted(keys)))
        except NotLeaderError:
            return
        except KubeError as error:
            if error.retry_after is not None:
                self._bucket.empty(until=loop.time() + error.retry_after)
            log.warning("labels not taken over, trying again", node=name, error=str(error))
            return
        self._left.discard(name)

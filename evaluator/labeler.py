"""Writes the node labels that decisions want: plan, apply the differences, look again. Never in the way of deciding."""

import asyncio
import random

from evaluator import labels
from evaluator.cluster import Cluster
from evaluator.decider import Decider
from evaluator.kube import Kube, KubeError
from evaluator.labels import Apply, Conflict
from evaluator.metrics import Metrics
from evaluator.objects import Node
from plimsoll import logs
from plimsoll.backoff import Backoff

log = logs.get(__name__)

_AT_ONCE = 8
"""More writes at a time add only latency at the API server."""
_BATCH = 64
"""Nodes written before the plan is made anew, so that a long series does not write what is no longer wanted."""

_FIELD = ".metadata.labels."


class Labeler:
    """Keeps the labels of all nodes as decided. `wake()` after new decisions, and when a node changed."""

    def __init__(self, kube: Kube, cluster: Cluster, decider: Decider, metrics: Metrics) -> None:
        self._kube = kube
        self._cluster = cluster
        self._decider = decider
        self._metrics = metrics
        self._wake = asyncio.Event()
        self._backoff = Backoff(random.Random().random, first=0.2)  # noqa: S311 (jitter)
        self.conflicts: tuple[Conflict, ...] = ()
        """Labels that could not be set because somebody else has them."""

    def wake(self) -> None:
        """Look at the plan soon."""
        self._wake.set()

    async def run(self) -> None:
        """Write for ever. Failures are waited out; the rest of the plan is not held up by them."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._decider.waiting_for:
                continue  # nothing is decided yet, so no label is wrong
            plan = self._plan()
            self._report(plan.conflicts)
            batch = plan.applies[:_BATCH]
            failed = await self._write(batch)
            if failed:
                await asyncio.sleep(self._backoff.next())
            else:
                self._backoff.reset()
            if failed or len(plan.applies) > len(batch):
                self._wake.set()

    def _plan(self) -> labels.Plan:
        nodes = {name: node.node_labels for name, node in self._cluster.nodes.objects.items()}
        return labels.plan(nodes, self._decider.latest.labels)

    def _report(self, conflicts: tuple[Conflict, ...]) -> None:
        for conflict in set(conflicts) - set(self.conflicts):
            log.warning(
                "label belongs to somebody else, not set",
                node=conflict.node,
                label=conflict.key,
                wanted=conflict.value,
                found=conflict.theirs,
            )
        if conflicts != self.conflicts:
            self.conflicts = conflicts
        self._metrics.label_conflicts.set(len(conflicts))

    async def _write(self, batch: tuple[Apply, ...]) -> int:
        """Apply to these nodes, a few at a time; returns how many failed."""
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(apply: Apply) -> bool:
            async with gate:
                return await self._apply(apply)

        return (await asyncio.gather(*map(one, batch))).count(False)

    async def _apply(self, apply: Apply) -> bool:
        try:
            node = await self._apply_what_is_free(apply)
        except KubeError as error:
            self._metrics.label_writes.labels("error").inc()
            log.warning("labels not written", node=apply.node, error=str(error))
            return False
        self._metrics.label_writes.labels("ok").inc()
        log.info("labels written", node=apply.node, labels=_spelled(apply))
        # The watch will say so too, but later: until then the same plan would be made again.
        known = self._cluster.nodes.objects.get(apply.node)
        if known is not None and not node.older_than(known):
            self._cluster.nodes.put(node)
        return True

    async def _apply_what_is_free(self, apply: Apply) -> Node:
        """Apply; on a conflict once more without the labels in dispute, which the plan then reports."""
        try:
            return await self._kube.apply_node_labels(apply)
        except KubeError as error:
            disputed = disputed_keys(error)
            if not disputed:
                raise
            free = {key: value for key, value in apply.labels.items() if key not in disputed}
            return await self._kube.apply_node_labels(Apply(apply.node, apply.uid, free))


def disputed_keys(error: KubeError) -> set[str]:
    """The label keys that a 409 of server-side apply names in its causes."""
    return {
        str(cause.get("field", ""))[len(_FIELD) :]
        for cause in error.causes
        if cause.get("reason") == "FieldManagerConflict"
        and str(cause.get("field", "")).startswith(_FIELD)
    }


def _spelled(apply: Apply) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(apply.labels.items())) or "none"

"""Writes the node labels that decisions want: plan, apply the differences, look again. Never in the way of deciding."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


@dataclass(slots=True)
class _Failing:
    """A node that could not be written, and when to try again (seconds, monotonic)."""

    backoff: Backoff
    at: float = 0.0


class Labeler:
    """Keeps the labels of all nodes as decided. `wake()` after new decisions, and when a node changed."""

    def __init__(
        self,
        kube: Kube,
        cluster: Cluster,
        decider: Decider,
        metrics: Metrics,
        *,
        rng: random.Random | None = None,
    ) -> None:
        self._kube = kube
        self._cluster = cluster
        self._decider = decider
        self._metrics = metrics
        self._rng = rng or random.Random()  # noqa: S311 (jitter, not a secret)
        self._wake = asyncio.Event()
        self._failing: dict[str, _Failing] = {}
        self.conflicts: tuple[Conflict, ...] = ()
        """Labels that could not be set because somebody else has them."""
        self.listeners: list[Callable[[], None]] = []
        """Who is told when those are others than before."""

    def wake(self) -> None:
        """Look at the plan soon."""
        self._wake.set()

    async def run(self) -> None:
        """Write for ever. A node that cannot be written is tried again later; the others are not held up by it."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._until_next_try())
            self._wake.clear()
            if self._decider.waiting_for:
                continue  # nothing is decided yet, so no label is wrong
            plan = self._plan()
            self._report(plan.conflicts)
            due = self._due(plan.applies)
            await self._write(due[:_BATCH])
            if len(due) > _BATCH:
                self._wake.set()

    def _due(self, applies: tuple[Apply, ...]) -> list[Apply]:
        """Those that did not fail lately."""
        now = time.monotonic()
        planned = {apply.node for apply in applies}
        self._failing = {node: f for node, f in self._failing.items() if node in planned}
        return [
            a for a in applies if a.node not in self._failing or self._failing[a.node].at <= now
        ]

    def _until_next_try(self) -> float | None:
        if not self._failing or self._decider.waiting_for:
            return None
        return max(0.0, min(f.at for f in self._failing.values()) - time.monotonic())

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
            for tell in self.listeners:
                tell()
        self._metrics.label_conflicts.set(len(conflicts))

    async def _write(self, batch: Sequence[Apply]) -> None:
        """Apply to these nodes, a few at a time."""
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(apply: Apply) -> None:
            async with gate:
                await self._apply(apply)

        await asyncio.gather(*map(one, batch))

    async def _apply(self, apply: Apply) -> None:
        try:
            node = await self._apply_what_is_free(apply)
        except KubeError as error:
            backoff = Backoff(self._rng.random, first=0.2)
            failing = self._failing.setdefault(apply.node, _Failing(backoff))
            delay = failing.backoff.next()
            failing.at = time.monotonic() + delay
            self._metrics.label_writes.labels("error").inc()
            log.warning(
                "labels not written, trying again",
                node=apply.node,
                error=str(error),
                delay=round(delay, 2),
            )
            return
        self._failing.pop(apply.node, None)
        self._metrics.label_writes.labels("ok").inc()
        log.info("labels written", node=apply.node, labels=_spelled(apply))
        # The watch will say so too, but later: until then the same plan would be made again.
        known = self._cluster.nodes.objects.get(apply.node)
        if known is not None and not node.older_than(known):
            self._cluster.nodes.put(node)

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

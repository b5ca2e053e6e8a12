"""Writes the node labels that decisions want: plan, apply the differences, look again. Never in the way of deciding."""

import asyncio
import contextlib
import heapq
import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from evaluator.cache.cluster import ClusterCache
from evaluator.controllers.conflict_log import ConflictLog
from evaluator.engine.loop import DecisionLoop
from evaluator.kubeapi.client import Kube
from evaluator.kubeapi.transport import KubeError
from evaluator.leader.write_fence import NotLeaderError
from evaluator.metrics import Metrics
from evaluator.model.node_labels import LabelApply, LabelConflict, NodeLabels
from evaluator.model.objects import Node
from evaluator.plans.node_labels import LabelPlan
from plimsoll import logs
from plimsoll.backoff import Backoff
from plimsoll.ratelimit import TokenBucket

log = logs.get(__name__)

_AT_ONCE = 8
"""More writes at a time add only latency at the API server."""
_STEP = 100
"""So many nodes are looked at before others have a turn: each may need a line in the log."""
_REST = 0.02
"""Seconds between two looks at what is wanted: to compare it takes up to a millisecond, and every reading may change it."""

_FIELD = ".metadata.labels."


@dataclass(slots=True)
class _Failing:
    """A node that could not be written, and when to try again (seconds, monotonic)."""

    backoff: Backoff
    at: float = 0.0


class NodeLabelController:
    """Keeps the labels of all nodes as decided. `wake()` after new decisions, and with a node when its labels changed.

    `is_leader` says whether this replica is the one that writes.
    """

    def __init__(
        self,
        kube: Kube,
        cluster: ClusterCache,
        decider: DecisionLoop,
        metrics: Metrics,
        *,
        bucket: TokenBucket,
        is_leader: Callable[[], bool] = lambda: True,
        rng: random.Random | None = None,
    ) -> None:
        self._kube = kube
        self._cluster = cluster
        self._decider = decider
        self._metrics = metrics
        self._bucket = bucket
        self._is_leader = is_leader
        self._rng = rng or random.Random()  # noqa: S311 (jitter, not a secret)
        self._wake = asyncio.Event()
        self._rested = 0.0
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._has_turn = False
        self._plan = LabelPlan()
        self._queue: dict[str, None] = {}
        """The nodes to be written next."""
        self._under_way: set[str] = set()
        self._failing: dict[str, _Failing] = {}
        self._tries: list[tuple[float, str]] = []
        """A heap of when (seconds, monotonic) a node may be tried again."""
        self._conflict_log = ConflictLog(log.warning)
        self.conflicts: tuple[LabelConflict, ...] = ()
        """Labels that could not be set because somebody else has them."""
        self.listeners: list[Callable[[], None]] = []
        """Who is told when those are others than before."""

    @property
    def idle(self) -> bool:
        """Whether no write is on its way."""
        return not self._under_way

    def wake(self, node: str | None = None) -> None:
        """Look at the plan soon."""
        if node is not None:
            self._plan.changed(node)
        self._wake.set()

    def start_over(self) -> None:
        """This replica writes from now on; what failed when it last did says nothing."""
        self._failing.clear()
        self._tries.clear()
        for node in self._cluster.nodes.objects:
            self._plan.changed(node)
        self.wake()

    async def run(self) -> None:
        """Write for ever. A node that cannot be written is tried again later; the others are not held up by it."""
        async with asyncio.TaskGroup() as writes:
            while True:
                await self._until_woken()
                await self._write(writes)

    def _may_write(self) -> bool:
        """While nothing is decided no label is wrong."""
        return self._is_leader() and not self._decider.waiting_for

    async def _until_woken(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._until_next_try()):
                await self._wake.wait()
        await asyncio.sleep(max(0.0, self._rested - time.monotonic()))
        self._wake.clear()

    def _until_next_try(self) -> float | None:
        if not self._tries or not self._may_write():
            return None
        return max(0.0, self._tries[0][0] - time.monotonic())

    async def _write(self, writes: asyncio.TaskGroup) -> None:
        """Start the writes that are planned, at the pace allowed, until they are all on their way."""
        while await self._anything():
            if not self._has_turn:
                # The wait may be long: what was planned before it is perhaps not wanted any more.
                await self._turn()
                continue
            self._has_turn = False
            node = next(iter(self._queue))
            del self._queue[node]
            self._under_way.add(node)
            apply = self._plan.applies[node]
            writes.create_task(self._apply(apply)).add_done_callback(self._ended(node))

    async def _anything(self) -> bool:
        """Bring the plan up to date, if something may be written; whether there is something to write."""
        if not self._may_write():
            return False
        now = time.monotonic()
        if now >= self._rested:
            self._plan.want(self._decider.latest.labels)
            self._rested = now + _REST
        while self._tries and self._tries[0][0] <= now:
            self._consider(heapq.heappop(self._tries)[1], now)
        await self._look(now)
        return bool(self._queue) and self._may_write()

    async def _look(self, now: float) -> None:
        """Look at every node that may differ from what is wanted, and report conflicts once for all of them."""
        changed = False
        while self._plan.pending:
            step = self._plan.step(self._seen, _STEP)
            for node in step.nodes:
                self._consider(node, now)
            self._conflict_log.add(step.began)
            changed |= bool(step.began or step.ended)
            await asyncio.sleep(0)
        if changed:
            self._conflict_log.write()
            self._publish_conflicts()

    def _seen(self, node: str) -> NodeLabels | None:
        found = self._cluster.nodes.objects.get(node)
        return found.node_labels if found else None

    def _consider(self, node: str, now: float) -> None:
        """Put a node into the queue, or take it out.

        Not one that failed lately, nor one whose answer is still to come: what that says may be all that is wanted.
        """
        planned = node in self._plan.applies
        if not planned:
            self._failing.pop(node, None)
        failing = self._failing.get(node)
        if planned and node not in self._under_way and (failing is None or failing.at <= now):
            self._queue[node] = None
        else:
            self._queue.pop(node, None)

    async def _turn(self) -> None:
        """Wait for a slot and a token; they are kept until there is something to use them for."""
        await self._slots.acquire()
        await asyncio.sleep(self._bucket.take(time.monotonic()))
        self._has_turn = True

    def _ended(self, node: str) -> Callable[[object], None]:
        def note(_task: object) -> None:
            self._under_way.discard(node)
            self._slots.release()
            self.wake(node)

        return note

    def _publish_conflicts(self) -> None:
        # In an order that every replica has, as statuses are made of it.
        by_node = sorted(self._plan.conflicts.items())
        self.conflicts = tuple(itertools.chain.from_iterable(found for _, found in by_node))
        self._metrics.label_conflicts.set(len(self.conflicts))
        for tell in self.listeners:
            tell()

    async def _apply(self, apply: LabelApply) -> None:
        try:
            node = await self._apply_what_is_free(apply)
        except NotLeaderError:
            return
        except KubeError as error:
            self._failed(apply.node, error)
            return
        self._failing.pop(apply.node, None)
        self._metrics.label_writes.labels("ok").inc()
        log.info("labels written", node=apply.node, labels=_spelled(apply))
        # The watch will say so too, but later: until then the same plan would be made again.
        known = self._cluster.nodes.objects.get(apply.node)
        if known is not None and not node.older_than(known):
            self._cluster.nodes.put(node)

    def _failed(self, node: str, error: KubeError) -> None:
        backoff = Backoff(self._rng.random, first=0.2)
        failing = self._failing.setdefault(node, _Failing(backoff))
        delay, now = failing.backoff.next(), time.monotonic()
        if error.retry_after is not None:
            delay = max(delay, error.retry_after)
            self._bucket.empty(until=now + error.retry_after)
        failing.at = now + delay
        heapq.heappush(self._tries, (failing.at, node))
        self._metrics.label_writes.labels("error").inc()
        log.warning(
            "labels not written, trying again", node=node, error=str(error), delay=round(delay, 2)
        )

    async def _apply_what_is_free(self, apply: LabelApply) -> Node:
        """Apply; on a conflict once more without the labels in dispute, which the plan then reports."""
        try:
            return await self._kube.apply_node_labels(apply)
        except KubeError as error:
            disputed = disputed_keys(error)
            if not disputed:
                raise
            free = {key: value for key, value in apply.labels.items() if key not in disputed}
            return await self._kube.apply_node_labels(LabelApply(apply.node, apply.uid, free))


def disputed_keys(error: KubeError) -> set[str]:
    """The label keys that a 409 of server-side apply names in its causes."""
    return {
        str(cause.get("field", ""))[len(_FIELD) :]
        for cause in error.causes
        if cause.get("reason") == "FieldManagerConflict"
        and str(cause.get("field", "")).startswith(_FIELD)
    }


def _spelled(apply: LabelApply) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(apply.labels.items())) or "none"

"""Writes the node labels that decisions want: plan, apply the differences, look again. Never in the way of deciding."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from evaluator import labels
from evaluator.cluster import Cluster
from evaluator.decider import Decider
from evaluator.kube import Kube, KubeError
from evaluator.labels import Apply, Conflict, NodeLabels
from evaluator.mandate import NoMandateError
from evaluator.metrics import Metrics
from evaluator.objects import Node
from evaluator.tokens import Bucket
from plimsoll import logs
from plimsoll.backoff import Backoff

log = logs.get(__name__)

_AT_ONCE = 8
"""More writes at a time add only latency at the API server."""
_REST = 5.0
"""Times as long as planning took, until the plan is made anew: every write changes a node, and so calls for another plan."""

_FIELD = ".metadata.labels."


@dataclass(slots=True)
class _Failing:
    """A node that could not be written, and when to try again (seconds, monotonic)."""

    backoff: Backoff
    at: float = 0.0


class Labeler:
    """Keeps the labels of all nodes as decided. `wake()` after new decisions, and when a node changed.

    `allowed` says whether this replica is the one that writes.
    """

    def __init__(
        self,
        kube: Kube,
        cluster: Cluster,
        decider: Decider,
        metrics: Metrics,
        *,
        bucket: Bucket,
        allowed: Callable[[], bool] = lambda: True,
        rng: random.Random | None = None,
    ) -> None:
        self._kube = kube
        self._cluster = cluster
        self._decider = decider
        self._metrics = metrics
        self._bucket = bucket
        self._allowed = allowed
        self._rng = rng or random.Random()  # noqa: S311 (jitter, not a secret)
        self._wake = asyncio.Event()
        self._rested = 0.0
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._has_turn = False
        self._read: dict[str, tuple[Node, NodeLabels]] = {}
        """What was read of a node for the last plan: reading whose each label is costs more than planning."""
        self._queue: dict[str, Apply] = {}
        self._under_way: set[str] = set()
        self._failing: dict[str, _Failing] = {}
        self.conflicts: tuple[Conflict, ...] = ()
        """Labels that could not be set because somebody else has them."""
        self.listeners: list[Callable[[], None]] = []
        """Who is told when those are others than before."""

    @property
    def idle(self) -> bool:
        """Whether no write is on its way."""
        return not self._under_way

    def wake(self) -> None:
        """Look at the plan soon."""
        self._wake.set()

    def start_over(self) -> None:
        """This replica writes from now on; what failed when it last did says nothing."""
        self._failing.clear()
        self.wake()

    async def run(self) -> None:
        """Write for ever. A node that cannot be written is tried again later; the others are not held up by it."""
        async with asyncio.TaskGroup() as writes:
            while True:
                await self._until_woken()
                if self._may_write():
                    self._look()
                    await self._write(writes)

    def _may_write(self) -> bool:
        """While nothing is decided no label is wrong."""
        return self._allowed() and not self._decider.waiting_for

    async def _until_woken(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), self._until_next_try())
        await asyncio.sleep(max(0.0, self._rested - time.monotonic()))
        self._wake.clear()

    def _until_next_try(self) -> float | None:
        if not self._failing or not self._may_write():
            return None
        return max(0.0, min(f.at for f in self._failing.values()) - time.monotonic())

    def _look(self) -> None:
        """Plan, and queue what is due of it in place of what an earlier plan still had there."""
        begin = time.monotonic()
        plan = labels.plan(self._found(), self._decider.latest.labels)
        self._report(plan.conflicts)
        planned = {apply.node for apply in plan.applies}
        self._failing = {node: f for node, f in self._failing.items() if node in planned}
        self._queue = {apply.node: apply for apply in plan.applies if self._due(apply.node, begin)}
        now = time.monotonic()
        self._rested = now + _REST * (now - begin)

    def _found(self) -> dict[str, NodeLabels]:
        """The labels of every node, read anew only where the node is another object than for the last plan."""
        before, self._read = self._read, {}
        for name, node in self._cluster.nodes.objects.items():
            known = before.get(name)
            if known is None or known[0] is not node:
                known = (node, node.node_labels)
            self._read[name] = known
        return {name: found for name, (_, found) in self._read.items()}

    def _due(self, node: str, now: float) -> bool:
        """Not one that failed lately, nor one whose answer is still to come: what that says may be all that is wanted."""
        failing = self._failing.get(node)
        return node not in self._under_way and (failing is None or failing.at <= now)

    async def _write(self, writes: asyncio.TaskGroup) -> None:
        """Start the writes that are queued, at the pace allowed, until they are all on their way or a new plan is due."""
        while self._queue and not self._outdated():
            await self._slots.acquire()
            await self._turn()
            # Either wait may have been long: what was planned before it is perhaps not wanted any more.
            if not self._may_write() or self._outdated():
                self._slots.release()
                return
            self._has_turn = False
            apply = self._queue.pop(next(iter(self._queue)))
            self._under_way.add(apply.node)
            writes.create_task(self._apply(apply)).add_done_callback(self._ended(apply.node))

    def _outdated(self) -> bool:
        return self._wake.is_set() and self._rested <= time.monotonic()

    async def _turn(self) -> None:
        """Wait for a token, unless there is one that was not used: a plan that is made anew costs none."""
        if not self._has_turn:
            await asyncio.sleep(self._bucket.take(time.monotonic()))
            self._has_turn = True

    def _ended(self, node: str) -> Callable[[object], None]:
        def note(_task: object) -> None:
            self._under_way.discard(node)
            self._slots.release()
            self.wake()

        return note

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

    async def _apply(self, apply: Apply) -> None:
        try:
            node = await self._apply_what_is_free(apply)
        except NoMandateError:
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
        self._metrics.label_writes.labels("error").inc()
        log.warning(
            "labels not written, trying again", node=node, error=str(error), delay=round(delay, 2)
        )

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

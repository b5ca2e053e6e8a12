"""Writes what nodes should have, some nodes at a time, while this replica leads."""

import asyncio
import heapq
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

from prometheus_client import Counter

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.isolation import Isolation
from evaluator.core.kube.client import Kube
from evaluator.core.kube.transport import KubeError
from evaluator.core.leader.write_fence import NotLeaderError
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.model.events import EventSpec
from evaluator.core.model.node import Node
from evaluator.core.policy.stops import StopsNow, no_stops
from evaluator.core.signals import (
    Acted,
    ActionKind,
    Decided,
    LeadershipGained,
    PolicyReportChanged,
    Publish,
    Reaction,
    unheard,
    wakes,
)
from evaluator.core.writes.node_plan import Desired, NodePlan
from evaluator.core.writes.undone import NodeWrite, Undone, UndoneWrites, unknown
from plimsoll import logs
from plimsoll.backoff import Backoff
from plimsoll.logs.ratelimited import RateLimitedLogger
from plimsoll.ratelimit import TokenBucket
from plimsoll.wakeup import WakeUp

_AT_ONCE = 8
"""Concurrent writes; more only add latency at the API server."""
_STEP = 100
"""Nodes compared before yielding to the event loop; each may need a log line."""
_LINES, _BURST = 1.0, 20
"""Lines a second and at once of writes and of failures; the rest are counted, and logged at level debug."""
_REST = 0.02
"""Seconds between two comparisons with the decisions: one takes up to a millisecond, and any reading may change them."""

_ALL = ""
"""The key of the plan of all nodes, where others are names of nodes."""

log = logs.get(__name__)


W = TypeVar("W", bound=NodeWrite)


def _always() -> bool:
    """Return True: a single replica always leads, and most plans are always ready."""
    return True


def _nothing() -> None:
    """Do nothing."""


def _no_notice(_write: object) -> None:
    """Return None: most writes get no Event."""


def _uncounted() -> Isolation:
    """Return an isolation whose errors no registry exports."""
    return Isolation(Counter("internal_errors", "Internal errors.", ["part"], registry=None))


def _undone() -> Counter:
    """Return a counter of undone writes that no registry exports."""
    return Counter("undone", "Undone writes.", ["what"], registry=None)


@dataclass(frozen=True, kw_only=True)
class WriteContext:
    """What controllers that write while this replica leads need of the core, made in `evaluator/core/assembly.py`.

    `bucket` permits writes of nodes, of all features together. `undone` counts writes that other clients undo, by what is
    written. `rng` is for jitter.
    """

    kube: Kube
    cluster: ClusterCache
    decider: DecisionLoop
    bucket: TokenBucket
    is_leader: Callable[[], bool] = _always
    publish: Publish = unheard
    stops: StopsNow = no_stops
    isolation: Isolation = field(default_factory=_uncounted)
    undone: Counter = field(default_factory=_undone)
    rng: random.Random = field(default_factory=random.Random)  # jitter, not a secret


class Controller(Protocol):
    """Writes while this replica leads."""

    def wake(self) -> None:
        """Reconcile soon."""
        ...

    def start_over(self) -> None:
        """This replica became leader."""
        ...


def while_leading(controller: Controller) -> tuple[Reaction, ...]:
    """Return the reactions that wake a controller after each decision, and start it over when this replica becomes leader."""
    return (
        *wakes(controller.wake, Decided),
        *wakes(controller.start_over, LeadershipGained),
    )


@dataclass(slots=True)
class _Failing:
    """A node whose write the API server refused, and when to retry (seconds, monotonic)."""

    backoff: Backoff
    at: float = 0.0


class NodeWriter(Generic[W]):
    """Keeps nodes as planned. Call `wake()` after the plan changed, `wake(node)` after a node changed.

    Starts writes only while `is_leader()`; `Kube.fence` (leader/write_fence.py) cancels those in flight. What a function
    raises for one node delays that node only.
    """

    def __init__(
        self,
        context: WriteContext,
        what: str,
        *,
        plan: Callable[[], Desired],
        compare: Callable[[str, Node, Mapping[str, str]], W | None],
        send: Callable[[W], Awaitable[Node]],
        writes: Counter,
        ready: Callable[[], bool] = _always,
        compared: Callable[[], None] = _nothing,
        manager_of: Callable[[Node], str] = unknown,
        notice: Callable[[W], EventSpec | None] = _no_notice,
    ) -> None:
        """`what` is written, for log lines. `writes` counts writes by their result: ok or error.

        `plan` returns what all nodes should have; the same object while nothing changes. `compare` returns the write that
        a node needs, by its name, its last known state and what it should have; None if it needs none. `send` writes to a
        node and returns it; raises KubeError. Nothing is written until `ready`. `compared` is called after nodes were
        compared. `manager_of` returns the other field manager that a node shows; empty if it shows none. `notice` returns the
        Event on a node about a write, if any.
        """
        self._what = what
        self._desired = plan
        self._send = send
        self._writes = writes
        self._ready = ready
        self._compared = compared
        self._cluster = context.cluster
        self._publish = context.publish
        self._decider = context.decider
        self._part = context.isolation.part(f"{what} of nodes")
        self._plan = NodePlan[Node, W](compare, self._isolated)
        self._written = RateLimitedLogger(log, "info", overflow="debug", rate=_LINES, burst=_BURST)
        self._not_written = RateLimitedLogger(log, overflow="debug", rate=_LINES, burst=_BURST)
        self._bucket = context.bucket
        self._is_leader = context.is_leader
        self._rng = context.rng
        self._wakeup = WakeUp()
        self._rested = 0.0
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._has_slot = False
        self._queue: dict[str, None] = {}
        """Nodes to write next, in order."""
        self._under_way: set[str] = set()
        self._failing: dict[str, _Failing] = {}
        self._manager_of = manager_of
        self._notice = notice
        self._undone = UndoneWrites(
            context.rng.random, context.undone.labels(what).inc, manager_of=manager_of
        )
        self._tries: list[tuple[float, str]] = []
        """A heap of retry times (seconds, monotonic) and nodes."""

    @property
    def idle(self) -> bool:
        """Whether no write is in flight."""
        return not self._under_way

    def undone(self) -> Sequence[Undone]:
        """Return the fields of nodes that another client takes away again and again."""
        return self._undone.latest

    def wake(self, node: str | None = None) -> None:
        """Reconcile soon; `node`: it changed."""
        if node is not None:
            self._plan.changed(node)
        self._wakeup.set()

    def start_over(self) -> None:
        """This replica became leader: drop old backoffs and compare all nodes."""
        self._failing.clear()
        self._undone.clear()
        for node in self._cluster.nodes.objects:
            self._plan.changed(node)
        self.wake()

    async def run(self) -> None:
        """Reconcile until cancelled. A failed node is retried with backoff; it does not delay the others."""
        async with asyncio.TaskGroup() as writes:
            while True:
                await self._wait()
                await self._write(writes)

    def _may_write(self) -> bool:
        """Whether this replica leads and decisions exist."""
        return self._is_leader() and not self._decider.waiting_for and self._ready()

    async def _wait(self) -> None:
        await self._wakeup.wait(self._until_next_try())
        await asyncio.sleep(max(0.0, self._rested - time.monotonic()))
        self._wakeup.clear()

    def _until_next_try(self) -> float | None:
        if not self._tries or not self._may_write():
            return None
        return max(0.0, self._tries[0][0] - time.monotonic())

    async def _write(self, writes: asyncio.TaskGroup) -> None:
        """Start the planned writes, within the rate limit, until none is left."""
        while await self._has_work():
            if not self._has_slot:
                # The wait may be long, and the plan may have changed after it.
                await self._take_slot()
                continue
            self._has_slot = False
            node = next(iter(self._queue))
            del self._queue[node]
            self._under_way.add(node)
            write = self._plan.writes[node]
            writes.create_task(self._apply(node, write)).add_done_callback(self._ended(node))

    async def _has_work(self) -> bool:
        """Update the plan if writes are permitted; returns whether a node is queued."""
        if not self._may_write():
            return False
        now = time.monotonic()
        if now >= self._rested:
            self._set_desired()
            self._rested = now + _REST
        while self._tries and self._tries[0][0] <= now:
            self._plan.changed(heapq.heappop(self._tries)[1])
        await self._update_plan(now)
        return bool(self._queue) and self._may_write()

    def _set_desired(self) -> None:
        if self._part.is_resting(_ALL):
            return
        try:
            self._plan.set_desired(self._desired())
        except Exception:  # noqa: BLE001 (isolated: the nodes keep their plan)
            self._retry(_ALL, self._part.failed(_ALL))
        else:
            self._part.succeeded(_ALL)

    async def _update_plan(self, now: float) -> None:
        """Compare every node that may differ from the plan."""
        while self._plan.pending:
            for node in self._plan.step(self._cluster.nodes.objects.get, _STEP):
                try:
                    self._consider(node, now)
                except Exception:  # noqa: BLE001 (isolated)
                    self._queue.pop(node, None)
                    self._retry(node, self._part.failed(node))
            await asyncio.sleep(0)
        self._compared()
        if self._undone.changed:
            self._undone.changed = False
            self._publish(PolicyReportChanged())

    def _isolated(self, node: str, find: Callable[[], W | None]) -> W | None:
        """Return the write that a node needs; None too where that cannot be found, and while the node is left alone."""
        if self._part.is_resting(node):
            return None
        try:
            write = find()
        except Exception:  # noqa: BLE001 (isolated)
            self._retry(node, self._part.failed(node))
            return None
        if write is None:
            self._part.succeeded(node)
        return write

    def _consider(self, node: str, now: float) -> None:
        """Queue a node, or remove it from the queue.

        Nodes in backoff and nodes with a write in flight are not queued: that write may be all that is needed.
        """
        write, known = self._plan.writes.get(node), self._cluster.nodes.objects.get(node)
        if write is None or known is None:
            self._failing.pop(node, None)
            self._undone.holds(node, now, exists=known is not None)
            self._queue.pop(node, None)
        elif self._is_free(node, known, write, now):
            self._queue[node] = None
        else:
            self._queue.pop(node, None)

    def _is_free(self, name: str, node: Node, write: W, now: float) -> bool:
        """Return whether a node is neither written now nor in backoff after a failed or undone write."""
        failing = self._failing.get(name)
        if name in self._under_way or (failing is not None and failing.at > now):
            return False
        delay = self._undone.note(name, node, write, now)
        if delay:
            self._retry(name, delay)
            self._not_written.log(
                f"{self._what} undone by another client, written again later",
                node=name,
                fields=",".join(sorted(write.fields)),
                manager=self._manager_of(node) or "unknown",
                delay=round(delay, 2),
            )
        return not self._undone.is_delayed(name, write, now)

    async def _take_slot(self) -> None:
        """Wait for a write slot and a token; both are kept until used."""
        await self._slots.acquire()
        await asyncio.sleep(self._bucket.take(time.monotonic()))
        self._has_slot = True

    def _ended(self, node: str) -> Callable[[object], None]:
        def note(_task: object) -> None:
            self._under_way.discard(node)
            self._slots.release()
            self.wake(node)

        return note

    async def _apply(self, name: str, write: W) -> None:
        if name not in self._cluster.nodes.objects:
            return  # deleted since it was planned
        try:
            self._applied(name, write, await self._send(write))
        except NotLeaderError:
            return
        except KubeError as error:
            self._refused(name, error)
        except Exception:  # noqa: BLE001 (isolated)
            self._writes.labels("error").inc()
            self._retry(name, self._part.failed(name))

    def _applied(self, name: str, write: W, node: Node) -> None:
        self._failing.pop(name, None)
        self._part.succeeded(name)
        if holds := self._undone.wrote(name, write, node, time.monotonic()):
            self._retry(name, holds)
        self._writes.labels("ok").inc()
        shown = write.shown
        self._written.log(f"{self._what} written", node=name, **{self._what: shown})
        notice = self._part.run(f"Event on {name}", partial(self._notice, write), None)
        text = f"{self._what}: {shown}" + (f"; {notice.message}" if notice else "")
        self._publish(Acted(ActionKind.WRITTEN, node=name, text=text, notice=notice))
        # The watch reports it later; until then the plan would repeat this write.
        known = self._cluster.nodes.objects.get(name)
        if known is not None and not node.older_than(known):
            self._cluster.nodes.put(node)

    def _refused(self, node: str, error: KubeError) -> None:
        backoff = Backoff(self._rng.random, first=0.2)
        failing = self._failing.setdefault(node, _Failing(backoff))
        delay, now = failing.backoff.next(), time.monotonic()
        if error.retry_after is not None:
            delay = max(delay, error.retry_after)
            self._bucket.empty(until=now + error.retry_after)
        failing.at = self._retry(node, delay)
        self._writes.labels("error").inc()
        failed = f"{self._what}: {error}"
        self._publish(Acted(ActionKind.NOT_WRITTEN, node=node, text=failed))
        self._not_written.log(
            f"{self._what} not written, trying again",
            node=node,
            error=str(error),
            delay=round(delay, 2),
        )

    def _retry(self, node: str, delay: float) -> float:
        """Compare a node again after some seconds; return when (monotonic)."""
        at = time.monotonic() + delay
        heapq.heappush(self._tries, (at, node))
        return at

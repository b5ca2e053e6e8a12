"""Writes the conditions of problems to nodes, and Events of problems, while this replica leads; their metrics."""

import asyncio
import time
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.isolation import Part, uncounted
from evaluator.core.kube.client import Kube
from evaluator.core.kube.event_writers import EventWriter
from evaluator.core.kube.transport import KubeError
from evaluator.core.leader.write_fence import NotLeaderError
from evaluator.core.model import events
from evaluator.core.model.events import EventSpec, ObjectReference
from evaluator.core.model.node import Node
from evaluator.core.signals import ProblemOccurred
from evaluator.core.writes.conditions import ConditionApply, ConditionWrites
from evaluator.core.writes.node_writer import NodeWriter, WriteContext
from evaluator.features.problems.plan import MANAGER, ProblemConditions
from evaluator.features.problems.waiting import EventId, WaitingEvents
from plimsoll import logs
from plimsoll.logs.ratelimited import RateLimitedLogger
from plimsoll.ratelimit import TokenBucket
from plimsoll.wakeup import WakeUp
from wire.problems import ProblemEvent


class ProblemMetrics:
    """The metrics of problems."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.writes = Counter(
            "plimsoll_problem_condition_writes",
            "Writes of node conditions of problems, by result.",
            ["result"],
            registry=registry,
        )
        for result in ("ok", "error"):
            self.writes.labels(result)
        self.dropped = Counter(
            "plimsoll_problem_events_dropped",
            "Events of problems that were not written: too many at once, or refused by the API server.",
            registry=registry,
        )
        self.foreign = Gauge(
            "plimsoll_problem_conditions_foreign",
            "Node conditions of --problemConditions that another reporter owns and keeps.",
            registry=registry,
        )


log = logs.get(__name__)

_MOST_COUNTS = 2000
"""Events whose count is remembered."""
_EVENTS_PER_SECOND, _BURST = 2.0, 25


def condition_writer(
    context: WriteContext, conditions: ProblemConditions, writes: Counter
) -> NodeWriter[ConditionApply]:
    """Return the writer of the conditions of problems. `wake(node)` it after the problems of a node changed."""
    sent = ConditionWrites(context.kube, MANAGER, conditions.condition)

    def compare(name: str, node: Node, wanted: Mapping[str, str]) -> ConditionApply | None:
        """They are of no policy: they stay while all policies are frozen."""
        return None if context.stops().others.frozen else sent.compare(name, node, wanted)

    return NodeWriter(
        context,
        "problems",
        plan=lambda: conditions,
        compare=compare,
        send=sent.send,
        writes=writes,
    )


class ProblemEventController:
    """Writes Events on nodes at a limited rate, those of one node after another: what occurs meanwhile is counted in one Event."""

    def __init__(
        self,
        kube: Kube,
        cluster: ClusterCache,
        metrics: ProblemMetrics,
        *,
        is_leader: Callable[[], bool],
        bucket: TokenBucket | None = None,
        part: Part | None = None,
    ) -> None:
        self._part = part or uncounted("events of problems")
        self._writer = EventWriter(kube)
        self._cluster = cluster
        self._metrics = metrics
        self._is_leader = is_leader
        self._bucket = bucket or TokenBucket(_EVENTS_PER_SECOND, _BURST)
        self._waiting = WaitingEvents()
        self._counts: dict[EventId, int] = {}
        self._wakeup = WakeUp()
        self._failures = RateLimitedLogger(log)

    def occurred(self, occurred: ProblemOccurred) -> None:
        """Write an event of a node soon; one without a place is dropped and counted."""
        if occurred.node not in self._cluster.nodes.objects:
            return
        if self._waiting.add(occurred.node, occurred.event):
            self._wakeup.set()
        else:
            self._metrics.dropped.inc(occurred.event.times)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            while self._waiting:
                if not self._is_leader():
                    self._waiting.clear()  # the leader's agent streams report them too
                    break
                await asyncio.sleep(self._bucket.take(time.monotonic()))
                if self._waiting:
                    key, event = self._waiting.pop()
                    with self._part.isolated("/".join(key)):
                        await self._write(key, event)

    async def _write(self, key: EventId, event: ProblemEvent) -> None:
        node = self._cluster.nodes.objects.get(key.node)
        if node is None:
            return
        about = ObjectReference("v1", "Node", "default", key.node, node.metadata.uid)
        spec = EventSpec("Warning", key.reason, event.message)
        suffix = events.suffix_of(about, f"{key.source} {key.reason}")
        if len(self._counts) >= _MOST_COUNTS:
            self._counts.clear()
        try:
            self._counts[key] = await self._writer.write(
                about, spec, suffix=suffix, count=self._counts.get(key, 0), times=event.times
            )
        except NotLeaderError:
            return
        except KubeError as error:
            self._metrics.dropped.inc(event.times)
            self._failures.log("event of a problem not written", node=key.node, reason=key.reason, error=str(error))  # fmt: skip

"""Writes Events on nodes while this replica leads, at a limited rate."""

import asyncio
import time
from collections.abc import Callable

from prometheus_client import Counter

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.isolation import Part, uncounted
from evaluator.core.kube.client import Kube
from evaluator.core.kube.event_writers import EventWriter
from evaluator.core.kube.transport import KubeError
from evaluator.core.kube.waiting_events import EventId, NodeEvent, WaitingEvents
from evaluator.core.model import events
from evaluator.core.model.events import EventSpec, on_node
from plimsoll import logs
from plimsoll.logs.ratelimited import RateLimitedLogger
from plimsoll.ratelimit import TokenBucket
from plimsoll.wakeup import WakeUp

log = logs.get(__name__)

_MOST_COUNTS = 2000
"""Events whose count is remembered."""
_EVENTS_PER_SECOND, _BURST = 2.0, 25


class NodeEventWriter:
    """Writes the Events of one node after another: what happens meanwhile is counted in one Event."""

    def __init__(
        self,
        kube: Kube,
        cluster: ClusterCache,
        dropped: Counter,
        *,
        is_leader: Callable[[], bool],
        bucket: TokenBucket | None = None,
        part: Part | None = None,
    ) -> None:
        """`dropped` counts events that are not written: too many at once, or refused by the API server."""
        self._part = part or uncounted("events of nodes")
        self._writer = EventWriter(kube)
        self._cluster = cluster
        self._dropped = dropped
        self._is_leader = is_leader
        self._bucket = bucket or TokenBucket(_EVENTS_PER_SECOND, _BURST)
        self._waiting = WaitingEvents()
        self._counts: dict[EventId, int] = {}
        self._wakeup = WakeUp()
        self._failures = RateLimitedLogger(log)

    def want(self, node: str, event: NodeEvent) -> None:
        """Write an event of a node soon; one without a place is dropped and counted."""
        if node not in self._cluster.nodes.objects:
            return
        if self._waiting.add(node, event):
            self._wakeup.set()
        else:
            self._dropped.inc(event.times)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            while self._waiting:
                if not self._is_leader():
                    self._waiting.clear()  # the leader notices the same
                    break
                await asyncio.sleep(self._bucket.take(time.monotonic()))
                if self._waiting:
                    key, event = self._waiting.pop()
                    with self._part.isolated("/".join(key)):
                        await self._write(key, event)

    async def _write(self, key: EventId, event: NodeEvent) -> None:
        node = self._cluster.nodes.objects.get(key.node)
        if node is None:
            return
        about = on_node(key.node, node.metadata.uid)
        spec = EventSpec("Warning", key.reason, event.message)
        suffix = events.suffix_of(about, f"{key.source} {key.reason}")
        if len(self._counts) >= _MOST_COUNTS:
            self._counts.clear()
        try:
            self._counts[key] = await self._writer.write(
                about, spec, suffix=suffix, count=self._counts.get(key, 0), times=event.times
            )
        except KubeError as error:
            if not self._is_leader():
                return
            self._dropped.inc(event.times)
            self._failures.log("event of a node not written", node=key.node, reason=key.reason, error=str(error))  # fmt: skip

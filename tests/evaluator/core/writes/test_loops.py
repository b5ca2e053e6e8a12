"""Every controller loop ends when cancelled, at any moment."""

import asyncio
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.types import Policy
from evaluator.core.writes.node_writer import WriteContext
from evaluator.features.evictions import plan as evictions
from evaluator.features.evictions.controller import EvictionController, EvictionMetrics
from evaluator.features.gangs.core.types import GangDecisions
from evaluator.features.gangs.events import GangEventRecorder
from evaluator.features.gangs.metrics import GangMetrics
from evaluator.features.labels.feature import LabelMetrics, NodeLabelController
from evaluator.features.requeue import plan as requeue
from evaluator.features.requeue.controller import RequeueController, RequeueMetrics
from evaluator.features.status.controller import StatusController
from evaluator.features.status.event_recorder import PolicyEventRecorder
from evaluator.features.status.pod_controller import StatusMetrics
from plimsoll.ratelimit import TokenBucket
from tests.patience import PATIENCE


def context(cluster, decided):
    return WriteContext(kube=None, cluster=cluster, decider=decided, bucket=TokenBucket(1.0, 1))


@pytest.fixture(params=["labeler", "evictor", "nudger", "recorder", "reporter", "event_recorder"])
def loop(request):
    cluster, registry = ClusterCache(), CollectorRegistry()
    decided = SimpleNamespace(latest=Decisions(), waiting_for=["everything"])
    match request.param:
        case "labeler":
            return NodeLabelController(context(cluster, decided), LabelMetrics(registry))
        case "evictor":
            return EvictionController(
                context(cluster, decided),
                EvictionMetrics(registry),
                pace=evictions.EvictionRate(1.0, 1),
            )
        case "nudger":
            pace = requeue.RequeueTimings()
            return RequeueController(
                None, cluster, decided, RequeueMetrics(registry), is_leader=lambda: True, pace=pace
            )
        case "recorder":
            return PolicyEventRecorder(None, decided, StatusMetrics(registry).policy_events)
        case "reporter":
            return StatusController(None, decided)
        case "event_recorder":
            return GangEventRecorder(None, GangMetrics(registry), dict, GangDecisions, tuple, {})


async def test_loop_waiting_with_a_timeout_ends_when_cancelled():
    """Python's own wait_for() may lose a cancellation."""
    key = PolicyKey("ns", "demo")
    decided = SimpleNamespace(latest=Decisions(policies={key: Decision(Policy(key))}))
    decided.waiting_for = []
    for turns in range(4):
        evictor = EvictionController(
            context(ClusterCache(), decided),
            EvictionMetrics(CollectorRegistry()),
            pace=evictions.EvictionRate(60.0, 1),
        )
        evictor.start_over()
        running = asyncio.create_task(evictor.run())
        await asyncio.sleep(0.1)
        evictor.wake()
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running], timeout=PATIENCE)
        assert running.cancelled()


@pytest.mark.parametrize("turns", range(4))
async def test_loop_woken_while_being_cancelled_ends(loop, turns):
    """A wake-up must not swallow the cancellation, or shutdown would hang."""
    running = asyncio.create_task(loop.run())
    await asyncio.sleep(0)
    loop.wake()
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running], timeout=PATIENCE)
    assert running.cancelled()

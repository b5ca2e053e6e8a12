"""The loop that evicts pods ends when cancelled, at any moment."""

import asyncio
from types import SimpleNamespace

from prometheus_client import CollectorRegistry

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.types import Policy
from evaluator.features.evictions.controller import EvictionController, EvictionMetrics
from evaluator.features.evictions.plan import ClusterView, EvictionRate
from tests.evaluator.core.writes.cancelling import (
    assert_ends_when_cancelled,
    context,
    nothing_decided,
)
from tests.patience import PATIENCE


def evictor(decided, period):
    metrics = EvictionMetrics(CollectorRegistry())
    made = context(decided)
    running, feasible_nodes = made.cluster.running, made.cluster.feasible_nodes
    cluster = ClusterView(running=running, feasible_nodes=feasible_nodes)
    return EvictionController(made, metrics, pace=EvictionRate(period, 1), cluster=cluster)


async def test_eviction_loop_ends_when_cancelled():
    await assert_ends_when_cancelled(lambda: evictor(nothing_decided(), period=1.0))


async def test_loop_waiting_with_a_timeout_ends_when_cancelled():
    """Python's own wait_for() may lose a cancellation."""
    key = PolicyKey("ns", "demo")
    decided = SimpleNamespace(
        latest=Decisions(policies={key: Decision(Policy(key))}), waiting_for=[]
    )
    for turns in range(4):
        waiting = evictor(decided, period=60.0)
        waiting.start_over()
        running = asyncio.create_task(waiting.run())
        await asyncio.sleep(0.1)
        waiting.wake()
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running], timeout=PATIENCE)
        assert running.cancelled()

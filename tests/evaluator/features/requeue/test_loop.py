"""The loop that requeues pods ends when cancelled, at any moment."""

from prometheus_client import CollectorRegistry

from evaluator.core.cache.cluster import ClusterCache
from evaluator.features.requeue.controller import RequeueController, RequeueMetrics
from evaluator.features.requeue.plan import RequeueTimings
from tests.evaluator.core.writes.cancelling import assert_ends_when_cancelled, nothing_decided


async def test_requeue_loop_ends_when_cancelled():
    def controller():
        return RequeueController(
            None,
            ClusterCache(),
            nothing_decided(),
            RequeueMetrics(CollectorRegistry()),
            is_leader=lambda: True,
            pace=RequeueTimings(),
        )

    await assert_ends_when_cancelled(controller)

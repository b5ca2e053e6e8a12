"""The loops that write statuses and Events of policies end when cancelled, at any moment."""

from prometheus_client import CollectorRegistry

from evaluator.features.status.controller import StatusController
from evaluator.features.status.event_recorder import PolicyEventRecorder
from evaluator.features.status.pod_controller import StatusMetrics
from tests.evaluator.core.writes.cancelling import assert_ends_when_cancelled, nothing_decided


async def test_status_loop_ends_when_cancelled():
    await assert_ends_when_cancelled(lambda: StatusController(None, nothing_decided()))


async def test_event_loop_ends_when_cancelled():
    counter = StatusMetrics(CollectorRegistry()).policy_events
    await assert_ends_when_cancelled(lambda: PolicyEventRecorder(None, nothing_decided(), counter))

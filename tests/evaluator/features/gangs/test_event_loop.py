"""The loop that writes Events of gangs ends when cancelled, at any moment."""

from prometheus_client import CollectorRegistry

from evaluator.features.gangs.core.types import GangDecisions
from evaluator.features.gangs.events import GangEventRecorder
from evaluator.features.gangs.metrics import GangMetrics
from tests.evaluator.core.writes.cancelling import assert_ends_when_cancelled


async def test_event_loop_ends_when_cancelled():
    metrics = GangMetrics(CollectorRegistry())
    await assert_ends_when_cancelled(
        lambda: GangEventRecorder(None, metrics, dict, GangDecisions, tuple, {})
    )

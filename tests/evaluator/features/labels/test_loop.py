"""The loop that writes labels ends when cancelled, at any moment."""

from prometheus_client import CollectorRegistry

from evaluator.features.labels.feature import LabelMetrics, NodeLabelController
from tests.evaluator.core.writes.cancelling import (
    assert_ends_when_cancelled,
    context,
    nothing_decided,
)


async def test_label_loop_ends_when_cancelled():
    def controller():
        metrics = LabelMetrics(CollectorRegistry())
        return NodeLabelController(context(nothing_decided()), metrics)

    await assert_ends_when_cancelled(controller)

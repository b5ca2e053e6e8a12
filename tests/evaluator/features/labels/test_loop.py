"""The loop that writes labels ends when cancelled, at any moment."""

from prometheus_client import CollectorRegistry

from evaluator.features.labels.feature import LabelConflicts, LabelMetrics, label_writer
from tests.evaluator.core.writes.cancelling import (
    assert_ends_when_cancelled,
    context,
    nothing_decided,
)


async def test_label_loop_ends_when_cancelled():
    def controller():
        metrics = LabelMetrics(CollectorRegistry())
        writes = context(nothing_decided())
        return label_writer(writes, LabelConflicts(writes.cluster, metrics), metrics.label_writes)

    await assert_ends_when_cancelled(controller)

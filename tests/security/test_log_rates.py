"""Log lines do not grow with the cluster: one event that concerns all nodes."""

import structlog
from prometheus_client import CollectorRegistry

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.writes.node_plan import Comparison
from evaluator.core.writes.node_writer import NodeWriter, WriteContext
from evaluator.features.labels.feature import LabelMetrics
from plimsoll.ratelimit import TokenBucket

NODES = 1_000


class Writer(NodeWriter):
    """Writes that succeed at once, or fail."""

    what = "labels"

    def __init__(self, error=None):
        context = WriteContext(
            kube=None, cluster=ClusterCache(), decider=None, bucket=TokenBucket(50, 100)
        )
        super().__init__(context, LabelMetrics(CollectorRegistry()).label_writes)
        self._error = error

    def _desired(self):
        return {}

    def _compare(self, _name, _node, _desired):
        return Comparison()

    def _shown(self, apply):
        return "demo=violating"

    async def _send(self, apply):
        if self._error:
            raise self._error
        return Node(NodeMeta(name=apply))


async def lines_of(writer, level):
    with structlog.testing.capture_logs() as found:
        for number in range(NODES):
            await writer._apply(f"node-{number}", f"node-{number}")
    return [line for line in found if line["log_level"] == level]


async def test_writes_to_many_nodes_are_few_lines_that_count_the_others():
    writer = Writer()
    lines = await lines_of(writer, "info")
    assert 20 <= len(lines) < NODES / 10
    assert {line["event"] for line in lines} == {"labels written"}
    writer._written._bucket = TokenBucket(1, 1)  # a second later
    last = (await lines_of(writer, "info"))[0]
    assert last["not_logged_before"] >= NODES - len(lines)


async def test_failures_of_many_nodes_are_few_lines():
    lines = await lines_of(Writer(KubeError(500, "etcd is gone")), "warning")
    assert 20 <= len(lines) < NODES / 10
    assert {line["error"] for line in lines} == {"etcd is gone"}

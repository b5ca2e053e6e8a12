"""Log lines do not grow with the cluster: one event that concerns all nodes."""

import structlog
from prometheus_client import CollectorRegistry

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.model.node_labels import LabelApply
from evaluator.core.writes.node_writer import NodeWriter, WriteContext
from evaluator.features.labels.feature import LabelMetrics
from plimsoll.ratelimit import TokenBucket

NODES = 1_000


def writer(error=None):
    """A writer of labels whose writes succeed at once, or fail."""

    async def send(apply):
        if error:
            raise error
        return Node(NodeMeta(name=apply.node))

    cluster = ClusterCache()
    cluster.nodes.replace([Node(NodeMeta(name=f"node-{number}")) for number in range(NODES)])
    return NodeWriter(
        WriteContext(kube=None, cluster=cluster, decider=None, bucket=TokenBucket(50, 100)),
        "labels",
        plan=dict,
        compare=lambda _name, _node, _desired: None,
        send=send,
        writes=LabelMetrics(CollectorRegistry()).label_writes,
    )


async def lines_of(writer, level):
    with structlog.testing.capture_logs() as found:
        for number in range(NODES):
            name = f"node-{number}"
            await writer._apply(name, LabelApply(name, "u", {"demo": "violating"}))
    return [line for line in found if line["log_level"] == level]


async def test_writes_to_many_nodes_are_few_lines_that_count_the_others():
    labels = writer()
    lines = await lines_of(labels, "info")
    assert 20 <= len(lines) < NODES / 10
    assert {line["event"] for line in lines} == {"labels written"}
    labels._written._bucket = TokenBucket(1, 1)  # a second later
    last = (await lines_of(labels, "info"))[0]
    assert last["not_logged_before"] >= NODES - len(lines)


async def test_failures_of_many_nodes_are_few_lines():
    lines = await lines_of(writer(KubeError(500, "etcd is gone")), "warning")
    assert 20 <= len(lines) < NODES / 10
    assert {line["error"] for line in lines} == {"etcd is gone"}

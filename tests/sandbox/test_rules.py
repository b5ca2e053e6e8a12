"""A policy on a recorded series: from a host file to the scheduler's answer."""

import shutil

import pytest

from sandbox import manifests
from sandbox.client.client import ensure
from sandbox.client.objects import NAMESPACES, POLICIES
from sandbox.cluster import ClusterSpec
from sandbox.scheduler.extender import Extender, ExtenderError, ExtenderSpec
from tests.preloaded import Cluster

pytestmark = pytest.mark.e2e

NODES = ("node-a", "node-b")
POD = {
    "metadata": {
        "name": "p",
        "namespace": "health-metric-demo",
        "labels": {"telemetry-policy": "scratch-policy"},
    },
    "spec": {"containers": []},
}


@pytest.fixture
async def cluster(tmp_path):
    # Unchanged reports are sent each minute: an earlier one was caused by the rule's result.
    spec = ClusterSpec(
        dir=tmp_path, nodes=NODES, sync_period=60, evaluator_flags=("--staleAfter=5m",)
    )
    async with Cluster(spec) as running:
        yield running


async def test_recorded_ratio_changes_the_schedulers_answer_at_once(cluster, eventually):
    def fill(node, free):
        text = f"scratch_free_bytes {free}e9\nscratch_size_bytes 100e9\n"
        (cluster.node_metrics(node) / "scratch.prom").write_text(text)

    async def refused(*names):
        nodes = [{"metadata": {"name": name}} for name in NODES]
        async with Extender(ExtenderSpec(f"{cluster.endpoints.extender}/scheduler")) as extender:
            try:
                answer = await extender.filter(POD, nodes)
            except ExtenderError:  # 503 while the first readings are pending
                return False
        return {*NODES} - {*answer.names} == {*names}

    for node in NODES:
        fill(node, 60)
    shutil.copy(manifests.folder() / "examples/scratch/rules.yaml", cluster.rules)
    for path, kind in (
        ("health-metric-demo/00-namespace.yaml", NAMESPACES),
        ("examples/scratch/policy.yaml", POLICIES),
    ):
        for obj in manifests.load(manifests.folder() / path):
            await ensure(cluster.client, kind, obj)
    await eventually(refused)

    fill("node-a", 5)
    await eventually(lambda: refused("node-a"))
    fill("node-a", 50)
    fill("node-b", 9)
    await eventually(lambda: refused("node-b"))

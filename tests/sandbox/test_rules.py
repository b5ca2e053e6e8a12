"""A policy on a recorded series: from a host file to the scheduler's answer."""

import shutil

import aiohttp
import pytest

from sandbox import manifests
from sandbox.client.client import ensure
from sandbox.client.objects import NAMESPACES, POLICIES
from sandbox.cluster import ClusterSpec
from sandbox.scheduler.extender import Extender, ExtenderError, ExtenderSpec
from tests.preloaded import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.features("evictions", "pages")]

NODES = ("node-a", "node-b")
SERIES = ("free", "size")
POD = {
    "metadata": {
        "name": "p",
        "namespace": "health-metric-demo",
        "labels": {"telemetry-policy": "scratch-policy"},
    },
    "spec": {"containers": []},
}


AMBIGUOUS = """
groups:
  - name: scratch
    rules:
      - record: node_scratch_ratio
        expr: scratch_free_bytes / on () scratch_size_bytes
"""


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


async def test_rule_that_fails_on_a_node_is_on_the_pages_until_it_is_mended(tmp_path, eventually):
    spec = ClusterSpec(dir=tmp_path, nodes=NODES, sync_period=1)
    async with Cluster(spec) as cluster, aiohttp.ClientSession(cluster.endpoints.ops) as session:

        def fill(node, *disks):
            rows = (f'scratch_{what}_bytes{{disk="{d}"}} 1\n' for d in disks for what in SERIES)
            (cluster.node_metrics(node) / "scratch.prom").write_text("".join(rows))

        async def failing():
            async with session.get("/rules.json") as response:
                found = (await response.json())["failingRules"]
            return [(one["rule"], one["nodes"], one["message"]) for one in found]

        fill("node-a", "sda")
        fill("node-b", "sda", "sdb")
        (cluster.rules / "scratch.yaml").write_text(AMBIGUOUS)
        await eventually(failing)
        [(rule, nodes, message)] = await failing()
        assert (rule, nodes) == ("node_scratch_ratio", ["node-b"])
        async with session.get("/nodes/node-b.json") as response:
            [on_node] = (await response.json())["failingRules"]["rules"]
        assert (on_node["group"], on_node["message"]) == ("scratch", message)

        fill("node-b", "sdb")

        async def mended():
            return not await failing()

        await eventually(mended)

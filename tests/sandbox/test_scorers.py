"""Scorers end to end: measured use decides, through real agents, evaluator and extender calls."""

import aiohttp
import pytest

from sandbox.client.client import ensure
from sandbox.client.objects import PODS
from sandbox.cluster import ClusterSpec
from sandbox.scheduler.extender import Extender, ExtenderSpec
from tests.preloaded import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.features("evictions", "scorers", "pages")]

SMALL = {"requests": {"cpu": "500m", "memory": "64Mi"}}


@pytest.fixture
async def cluster(tmp_path):
    spec = ClusterSpec(dir=tmp_path, scorers=("safe",), evaluator_flags=("--scorerWeights=safe=2",))
    async with Cluster(spec) as running:
        yield running


@pytest.fixture
def use(cluster):
    """The use of a node of 8 cores and 16 GiB, as a text file."""

    def write(node, *, cores, deviation=0.4):
        path = cluster.node_metrics(node) / "usage.prom"
        path.write_text(
            f"node_cpu_used_mean_5m_cores {cores}\n"
            f"node_cpu_used_stddev_5m_cores {deviation}\n"
            "node_memory_used_mean_5m_bytes 4e9\n"
            "node_memory_used_stddev_5m_bytes 1e8\n"
        )

    return write


def a_pod(name, **spec):
    container = {"name": "c", "image": "none:1", "resources": SMALL}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **spec},
    }


@pytest.fixture
def refused(cluster):
    """The nodes that `safe` rejects for a small pod."""

    async def ask():
        names = [{"metadata": {"name": name}} for name in cluster.spec.nodes]
        async with Extender(ExtenderSpec(f"{cluster.endpoints.extender}/scorers/safe")) as safe:
            return set((await safe.filter(a_pod("asked"), names)).refused)

    return ask


async def test_node_full_by_use_but_not_by_requests_gets_no_pod(cluster, use, refused, eventually):
    for node, cores in (("node-a", 7.2), ("node-b", 1), ("node-c", 4)):
        use(node, cores=cores)

    async def known():
        return await refused() == {"node-a"}

    await eventually(known)
    for number in range(4):
        await ensure(cluster.client, PODS, a_pod(f"p-{number}"))
    await ensure(
        cluster.client, PODS, a_pod("pinned", nodeSelector={"kubernetes.io/hostname": "node-a"})
    )

    async def settled():
        pods = {pod["metadata"]["name"]: pod for pod in (await cluster.client.list(PODS)).items}
        nodes = [pods[f"p-{number}"]["spec"].get("nodeName") for number in range(4)]
        told = str(pods["pinned"]["status"].get("conditions"))
        return nodes if all(nodes) and "risk that its CPU is overloaded" in told else None

    assert set(await eventually(settled)) <= {"node-b", "node-c"}
    await explained(cluster)
    use("node-a", cores=1)

    async def free():
        return await refused() == set()

    await eventually(free)


async def explained(cluster):
    """The page explains the waiting pod's rejections, and kube-scheduler's sums for the others."""
    async with aiohttp.ClientSession() as session:
        url = f"{cluster.endpoints.ops}/explain?pod=default/pinned"
        async with session.get(url) as response:
            page = await response.json()
    full, idle = page["nodes"]["node-a"], page["nodes"]["node-b"]
    assert (full["total"], full["refusedBy"]) == (None, ["safe"])
    assert full["extenders"]["safe"]["facts"]["cpu.risk"] > 0.3
    score = idle["extenders"]["safe"]["scores"]["safe-overload"]
    assert idle["total"] == score * 2 * 10 > 0

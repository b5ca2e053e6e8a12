"""The product end to end: a health file on one node, real agents and evaluator, and the pods."""

import pytest

from sandbox import manifests
from sandbox.client.client import ensure
from sandbox.client.objects import (
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    POLICIES,
    REPLICASETS,
)
from sandbox.cluster import ClusterSpec
from sandbox.scheduler.extender import Extender, ExtenderSpec
from tests.preloaded import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.features("evictions", "pages")]

DEMO = "health-metric-demo"
HOMES = {"Namespace": NAMESPACES, "Deployment": DEPLOYMENTS, "TASPolicy": POLICIES}


@pytest.fixture(params=[True, False], ids=["names", "nodes"])
async def cluster(request, tmp_path):
    spec = ClusterSpec(
        dir=tmp_path,
        node_cache_capable=request.param,
        evaluator_flags=("--evictPeriod=1s",),
    )
    async with Cluster(spec) as running:
        yield running


@pytest.fixture
def write(cluster):
    """Write an operator's health value for a node."""

    def health(node, value):
        (cluster.node_metrics(node) / "text.prom").write_text(f"node_health_metric {value}\n")

    return health


@pytest.fixture
def pods(cluster):
    async def living():
        found = (await cluster.client.list(PODS, DEMO)).items
        return {
            pod["metadata"]["name"]: pod["spec"].get("nodeName")
            for pod in found
            if "deletionTimestamp" not in pod["metadata"]
        }

    return living


@pytest.fixture
def refuses(cluster):
    """Whether the evaluator rejects all of these nodes for the demo's pods."""
    pod = {
        "metadata": {"name": "p", "namespace": DEMO, "labels": {"telemetry-policy": "demo-policy"}},
        "spec": {"containers": []},
    }

    async def ask(names):
        nodes = [{"metadata": {"name": name}} for name in names]
        async with Extender(ExtenderSpec(f"{cluster.endpoints.extender}/scheduler")) as extender:
            return not (await extender.filter(pod, nodes)).names

    return ask


async def test_violating_node_is_avoided_emptied_and_used_again(
    cluster, write, pods, refuses, eventually
):
    for node in ("node-a", "node-b", "node-c"):
        write(node, 0)
    for obj in manifests.load(manifests.folder() / DEMO):
        await ensure(cluster.client, HOMES[obj["kind"]], obj)

    async def placed(count):
        found = await pods()
        return len(found) == count and all(found.values()) and found

    ((first, home),) = (await eventually(lambda: placed(1))).items()

    # The pod's own node violates: it is labelled, the pod is evicted, another is placed elsewhere.
    write(home, 2)

    async def labelled():
        labels = (await cluster.client.get(NODES, home))["metadata"]["labels"]
        return labels.get("demo-policy") == "violating"

    async def moved():
        found = await pods()
        return first not in found and home not in found.values() and await placed(1)

    await eventually(labelled)
    await eventually(moved)

    # All nodes violate: the next pod waits, and its events have the reason.
    others = [node for node in ("node-a", "node-b", "node-c") if node != home]
    for node in others:
        write(node, 1)
    await eventually(lambda: refuses(others))
    await cluster.client.patch(DEPLOYMENTS, "demo-app", {"spec": {"replicas": 2}}, DEMO)

    async def told():
        events = (await cluster.client.list(EVENTS, DEMO, fields="reason=FailedScheduling")).items
        return [one for one in events if "demo-policy: health_metric Equals 1" in one["message"]]

    await eventually(told)
    waiting = [name for name, node in (await pods()).items() if not node]
    assert len(waiting) == 1

    # One node recovers: its label is removed, and the waiting pod is placed there.
    write(home, 0)

    async def recovered():
        found = await placed(2)
        return found and found[waiting[0]] == home and not await labelled()

    await eventually(recovered)
    attempts = cluster.binder.attempts[f"{DEMO}/{waiting[0]}"]
    assert attempts < 12, "the scheduler spins: a rejection's text varies"
    assert len((await cluster.client.list(REPLICASETS, DEMO)).items) == 1


async def test_restart_of_a_killed_evaluator_removes_no_correct_label(cluster, write, eventually):
    for obj in manifests.load(manifests.folder() / DEMO):
        await ensure(cluster.client, HOMES[obj["kind"]], obj)
    write("node-b", 2)

    async def node():
        return await cluster.client.get(NODES, "node-b")

    async def labelled():
        return (await node())["metadata"]["labels"].get("demo-policy") == "violating"

    await eventually(labelled)
    listing = await cluster.client.list(NODES)
    await cluster.restart_evaluator(kill=True)
    write("node-c", 2)

    async def c_labelled():
        labels = (await cluster.client.get(NODES, "node-c"))["metadata"]["labels"]
        return labels.get("demo-policy") == "violating"

    await eventually(c_labelled)
    seen = []
    async for kind, obj in cluster.client.watch(NODES, listing.version):
        if kind == "BOOKMARK" or obj["metadata"]["name"] == "node-c":
            break
        seen.append((obj["metadata"]["name"], obj["metadata"]["labels"].get("demo-policy")))
    assert ("node-b", None) not in seen
    assert await labelled()

"""A metric that one node of three has, end to end: real agents with their collectors, and the evaluator."""

import json

import aiohttp
import pytest

from sandbox.client.client import ensure
from sandbox.client.objects import NAMESPACES, POLICIES
from sandbox.cluster import ClusterSpec
from tests.preloaded import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.features("evictions", "pages")]

NAMESPACE, RULE = "gpu", {"metricname": "gpu_hot", "operator": "GreaterThan", "target": 80}
GPU = "node-a"
ABSENT = "gpu_hot is absent on 2 of 3 nodes (node-b, node-c)"


@pytest.fixture
async def cluster(tmp_path):
    async with Cluster(ClusterSpec(dir=tmp_path)) as running:
        await ensure(running.client, NAMESPACES, {"metadata": {"name": NAMESPACE}})
        yield running


@pytest.fixture
def hot(cluster):
    """Write the metric of a node; None removes it."""

    def write(node, value):
        path = cluster.node_metrics(node) / "gpu.prom"
        if value is None:
            path.unlink()
        else:
            path.write_text(f"gpu_hot {value}\n")

    return write


@pytest.fixture
def create(cluster):
    """Create a policy on the metric."""

    async def run(name, **rule):
        rules = {"rules": [{**RULE, **rule}]}
        spec = {"strategies": {"dontschedule": rules, "deschedule": rules}}
        body = {
            "apiVersion": "telemetry.intel.com/v1alpha1",
            "kind": "TASPolicy",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": spec,
        }
        await ensure(cluster.client, POLICIES, body)

    return run


@pytest.fixture
def status(cluster, eventually):
    """Wait for the compliance of a policy and for what its message says, and return its status."""

    async def run(name, compliance, message=""):
        async def found():
            policy = await cluster.client.get(POLICIES, name, NAMESPACE)
            known = policy.get("status") or {}
            reached = known.get("compliance") == compliance and message in known["message"]
            return reached and known

        return await eventually(found)

    return run


@pytest.fixture
def page(cluster):
    """Read a page of the evaluator."""

    async def run(path):
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{cluster.endpoints.ops}{path}") as response,
        ):
            assert response.status == 200
            return await response.text()

    return run


def figures(metrics, policy):
    """The numbers of missing and absent readings; None without a series."""
    labels = f'{{metric="gpu_hot",namespace="{NAMESPACE}",policy="{policy}"}}'
    found = []
    for name in ("missing", "absent"):
        series = f"plimsoll_policy_{name}_readings{labels} "
        lines = [line for line in metrics.splitlines() if line.startswith(series)]
        found.append(float(lines[0].removeprefix(series)) if lines else None)
    return found


async def test_metric_of_one_node_is_absent_on_the_others_until_it_is_lost(
    hot, create, status, page, eventually
):
    hot(GPU, 90)
    await create("cool")
    found = await status("cool", "Violated", ABSENT)
    assert found["message"] == f"violated on 1 of 3 nodes ({GPU}); {ABSENT}: no violation there"
    hot(GPU, 20)
    found = await status("cool", "Compliant", ABSENT)
    assert found["message"] == f"no violation on 3 nodes; {ABSENT}: no violation there"
    states = {one["type"]: one["status"] for one in found["conditions"]}
    assert (states["DontScheduleViolated"], states["MetricsFound"]) == ("False", "True")
    assert figures(await page("/metrics"), "cool") == [0, 2]
    explained = json.loads(await page(f"/explain/{NAMESPACE}/cool"))["nodes"]
    assert explained["node-b"]["readings"]["gpu_hot"]["state"].startswith("absent: the node never")
    # Node b gets the metric and loses it: its reading is missing, beside the one that is absent.
    hot("node-b", 20)

    async def had():
        return figures(await page("/metrics"), "cool") == [0, 1]

    await eventually(had)
    hot("node-b", None)
    await status("cool", "Unknown", "no usable reading of gpu_hot on 1 of 3 nodes (node-b); ")
    assert figures(await page("/metrics"), "cool") == [1, 1]


async def test_absent_metric_violates_if_missing_readings_do(hot, create, status, page):
    hot(GPU, 20)
    await create("strict", whenMissing="violate")
    found = await status("strict", "Violated", ABSENT)
    assert found["message"] == (
        "violated on 2 of 3 nodes (node-b, node-c), 2 of them because of missing readings; "
        f"{ABSENT}: a violation there, by whenMissing"
    )
    assert figures(await page("/metrics"), "strict") == [2, 2]


async def test_metric_that_no_node_has_is_missing(create, status, page):
    await create("cool")
    await status("cool", "Unknown", "no usable reading of gpu_hot on 3 of 3 nodes")
    assert figures(await page("/metrics"), "cool") == [3, None]


async def test_broken_file_may_have_the_metric(cluster, hot, create, status):
    """An agent that cannot read one of its files does not know that it lacks a metric."""
    hot(GPU, 20)
    hot("node-b", "?")
    await create("cool")
    absent = "gpu_hot is absent on 1 of 3 nodes (node-c): no violation there"
    found = await status("cool", "Unknown", absent)
    assert found["message"].startswith("no usable reading of gpu_hot on 1 of 3 nodes (node-b); ")

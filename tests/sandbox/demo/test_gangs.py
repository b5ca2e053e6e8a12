"""Gangs end to end: gated pods, the real evaluator, and the sandbox's scheduler."""

import aiohttp
import pytest

from sandbox.client import events
from sandbox.client.client import JSON_PATCH, ensure
from sandbox.client.objects import DEPLOYMENTS, PODS
from sandbox.cluster import ClusterSpec
from tests.preloaded import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.features("evictions", "gangs", "pages")]

GATE = {"name": "plimsoll.io/gang"}
OTHERS = {"name": "example.com/quota"}
ADMITTED = "plimsoll.io/admitted-at"


@pytest.fixture
async def cluster(tmp_path):
    async with Cluster(ClusterSpec(dir=tmp_path, nodes=("node-a",), gangs=True)) as running:
        yield running


def template(group, minimum, *, gates=(GATE,)):
    """The pod template of a gang. The node has 8 cores: three pods fit."""
    container = {"name": "c", "image": "none:1", "resources": {"requests": {"cpu": "2500m"}}}
    return {
        "metadata": {"labels": {"podGroup": group, "minAvailable": str(minimum)}},
        "spec": {"containers": [container], "schedulingGates": list(gates)},
    }


@pytest.fixture
def add(cluster):
    """A bare pod of a gang."""

    async def create(name, *args, **options):
        made = template(*args, **options)
        body = {"apiVersion": "v1", "kind": "Pod", **made}
        body["metadata"] |= {"name": name, "namespace": "default"}
        await ensure(cluster.client, PODS, body)

    return create


@pytest.fixture
def deploy(cluster):
    """A Deployment whose pods are a gang."""

    async def create(name, replicas, *args, **options):
        made = template(name, *args, **options)
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": {"podGroup": name}},
            "template": made,
        }
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
        }
        await cluster.client.create(DEPLOYMENTS, body)

    return create


@pytest.fixture
def pods(cluster):
    """The pods of a gang that are not terminating."""

    async def living(group):
        found = (await cluster.client.list(PODS, "default", labels=f"podGroup={group}")).items
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    return living


@pytest.fixture
def run(pods, eventually, cluster):
    """Wait until exactly this many pods of a gang run; return their names."""

    async def wait(group, count):
        async def all_run():
            found = await pods(group)
            running = all(pod["status"].get("phase") == "Running" for pod in found)
            return found if running and len(found) == count else None

        try:
            return {pod["metadata"]["name"] for pod in await eventually(all_run)}
        except TimeoutError:
            raise AssertionError(cluster.processes.log_end("evaluator")) from None

    return wait


@pytest.fixture
def told(cluster, eventually):
    """Wait for an event with this reason on a pod; return its message."""

    async def wait(pod, reason):
        async def event():
            return await events.find(cluster.client, "default", pod, reason)

        return (await eventually(event))["message"]

    return wait


async def gates(pods, group):
    """The gates of each pod of a gang."""
    return {
        pod["metadata"]["name"]: [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]
        for pod in await pods(group)
    }


async def test_third_pod_created_during_downtime_completes_the_gang(cluster, add, pods, run, told):
    await add("t-0", "train", 3)
    await add("t-1", "train", 3)
    assert "2 of 3 pods" in await told("t-0", "GangIncomplete")
    await cluster.stop_evaluator(kill=True)
    await add("t-2", "train", 3)
    assert await gates(pods, "train") == {f"t-{n}": [GATE["name"]] for n in range(3)}
    await cluster.start_evaluator()
    assert await run("train", 3) == {"t-0", "t-1", "t-2"}
    assert all(ADMITTED in pod["metadata"]["annotations"] for pod in await pods("train"))


async def test_admitted_pods_are_known_to_the_next_evaluator(cluster, deploy, pods, run):
    await deploy("train", 3, 3)
    before = await run("train", 3)
    await cluster.restart_evaluator(kill=True)
    lost = (await pods("train"))[0]["metadata"]["name"]
    await cluster.client.delete(PODS, lost, "default", grace=0)
    after = await run("train", 3)
    assert len(after & before) == 2


async def test_foreign_gate_stays_and_is_waited_for(cluster, add, pods, run, told):
    await add("t-0", "train", 2)
    await add("t-1", "train", 2, gates=(OTHERS, GATE))
    assert OTHERS["name"] in await told("t-0", "GangGatedByOthers")
    assert (await gates(pods, "train"))["t-1"] == [OTHERS["name"], GATE["name"]]
    lift = ({"op": "remove", "path": "/spec/schedulingGates/0"},)
    await cluster.client.patch(PODS, "t-1", lift, "default", content_type=JSON_PATCH)
    await run("train", 2)


async def test_two_gangs_with_capacity_for_one_are_never_half_placed(cluster, add, pods, run, told):
    for number in range(3):
        for group in ("left", "right"):
            await add(f"{group}-{number}", group, 3)
    await run("left", 3)
    await told("right-0", "GangWaitsForRoom")
    assert all(held == [GATE["name"]] for held in (await gates(pods, "right")).values())
    for number in range(3):
        await cluster.client.delete(PODS, f"left-{number}", "default", grace=0)
    await run("right", 3)


async def test_explain_shows_what_a_gang_waits_for_and_ungated_pods_run(cluster, add, run, told):
    await add("t-0", "train", 3)
    await add("free", "alone", 1, gates=())
    assert await run("alone", 1) == {"free"}
    await told("t-0", "GangIncomplete")
    async with aiohttp.ClientSession() as http:
        url = f"{cluster.endpoints.ops}/explain?gang=default/"
        async with http.get(f"{url}train") as response:
            page = await response.json()
        async with http.get(f"{url}nobody") as response:
            status, said = response.status, (await response.json())["error"]
    assert (page["state"], page["message"]) == ("Incomplete", "1 of 3 pods of podGroup train exist")
    assert page["members"]["t-0"]["state"] == "held"
    assert (status, "known in this namespace: default/train" in said) == (404, True)


async def test_no_gate_is_lifted_without_the_flag_and_explain_reports_it(tmp_path):
    async with Cluster(ClusterSpec(dir=tmp_path, nodes=("node-a",))) as cluster:
        url = f"{cluster.endpoints.ops}/explain?gang=default/train"
        async with aiohttp.ClientSession() as http, http.get(url) as response:
            assert response.status == 404
            assert "gangs are off (--gangs)" in await response.text()

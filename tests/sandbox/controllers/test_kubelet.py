"""Bound pods run and deleted pods are removed, on simulated nodes only."""

import asyncio

import pytest

from sandbox.client.client import ApiError
from sandbox.client.objects import PODS
from sandbox.controllers.kubelet import Kubelet, needs_start, running
from sandbox.controllers.nodes import Nodes


@pytest.fixture
async def place(client):
    """Create a pod and bind it."""

    async def put(name, node):
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "none:1"}]},
        }
        await client.bind(await client.create(PODS, body), node)

    return put


@pytest.fixture
async def start(client):
    running_now = []

    async def begin(*names, **options):
        await Nodes(client, names).register()
        running_now.append(asyncio.create_task(Kubelet(client, names, **options).run()))

    yield begin
    for task in running_now:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
def phase(client):
    async def read(name):
        return (await client.get(PODS, name, "default"))["status"]["phase"]

    return read


async def test_bound_pod_runs_and_is_ready(client, start, place, phase, eventually):
    await start("node-a", "node-b")
    await place("p", "node-b")
    await place("q", "node-b")

    async def both_run():
        return [await phase("p"), await phase("q")] == ["Running", "Running"]

    await eventually(both_run)
    p, q = await client.get(PODS, "p", "default"), await client.get(PODS, "q", "default")
    conditions = {one["type"]: one for one in p["status"]["conditions"]}
    assert {
        kind: conditions[kind]["status"] for kind in ("PodScheduled", "Initialized", "Ready")
    } == {
        "PodScheduled": "True",
        "Initialized": "True",
        "Ready": "True",
    }
    assert p["status"]["podIP"] != q["status"]["podIP"]
    assert p["status"]["hostIP"] == q["status"]["hostIP"]
    assert [one["ready"] for one in p["status"]["containerStatuses"]] == [True]


async def test_deleted_pod_is_removed(client, start, place, phase, eventually):
    await start("node-a")
    await place("p", "node-a")

    async def runs():
        return await phase("p") == "Running"

    async def gone():
        try:
            await client.get(PODS, "p", "default")
        except ApiError as error:
            return error.status == 404
        return False

    await eventually(runs)
    await client.delete(PODS, "p", "default")
    await eventually(gone)


async def test_slowly_terminating_pod_exists_until_it_ends(client, start, place, eventually):
    await start("node-a", grace=600.0)
    await place("p", "node-a")
    await place("q", "node-a")
    deleted = await client.delete(PODS, "p", "default")
    assert "deletionTimestamp" in deleted["metadata"]

    async def q_runs():
        return (await client.get(PODS, "q", "default"))["status"]["phase"] == "Running"

    await eventually(q_runs)
    assert (await client.get(PODS, "p", "default"))["metadata"]["deletionTimestamp"]


async def test_node_that_is_not_simulated_has_no_kubelet(client, start, place, phase, eventually):
    await start("node-a")
    await place("p", "node-x")
    await place("q", "node-a")

    async def q_runs():
        return await phase("q") == "Running"

    await eventually(q_runs)
    assert await phase("p") == "Pending"


def test_init_containers_complete_and_foreign_conditions_stay(pod):
    one = pod(
        initContainers=[{"name": "i", "image": "none"}],
        status={
            "conditions": [
                {"type": "Custom", "status": "False"},
                {"type": "Ready", "status": "False"},
            ]
        },
    )
    status = running(one, host_ip="10.0.0.1", pod_ip="10.244.0.2", now=0)
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    states = [(one["type"], one["status"]) for one in status["conditions"]]
    assert states[0] == ("Custom", "False")
    assert states.count(("Ready", "True")) == 1
    assert ("Ready", "False") not in states


@pytest.mark.parametrize(
    ("status", "needed"),
    [
        ({"phase": "Pending"}, True),
        ({}, True),
        ({"phase": "Running"}, False),
        ({"phase": "Failed"}, False),
    ],
)
def test_pods_that_need_a_start_are_detected(pod, status, needed):
    assert needs_start(pod(status=status)) is needed

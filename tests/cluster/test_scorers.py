"""A scorer as a scheduler extender: pods avoid nodes that are full by use."""

import pytest

from sandbox.client.objects import NODES, PODS

pytestmark = [pytest.mark.e2e, pytest.mark.features("scorers")]

BUSY = {"mean-free-cpu": "300", "std-free-cpu": "100"}
IDLE = {"mean-free-cpu": "7600", "std-free-cpu": "100"}
NO_AGENTS = {"agent_limits": {"reconnect": 0.0}}
PODS_TO_PLACE = 4
"""A scheduler spreads these over two nodes with equal requests."""


async def annotate(world, node, said):
    await world.client.patch(NODES, node, {"metadata": {"annotations": said}})


def asking(cpu):
    """A container with the resource that the scorer's extender manages."""
    resources = {"requests": {"cpu": cpu}, "limits": {"telemetry/scheduling": "1"}}
    return {"containers": [{"name": "c", "image": "none", "resources": resources}]}


async def node_of(world, pod):
    return (await world.client.get(PODS, pod, world.namespace))["spec"].get("nodeName")


async def placed(world, pod):
    async def bound():
        return await node_of(world, pod)

    try:
        return await world.eventually(bound)
    except TimeoutError:
        raise AssertionError(f"{pod} was not placed{world.evaluator.log()}") from None


async def test_pods_are_kept_off_a_node_full_by_use_but_not_by_requests(world, tmp_path):
    busy, idle = [await world.add_node(name) for name in ("a", "b")]
    await annotate(world, busy, BUSY)
    await annotate(world, idle, IDLE)
    await world.start("--scorers=safe", **NO_AGENTS)
    async with world.plane.scheduler(world.evaluator.scorer("safe"), tmp_path):
        names = [f"web-{number}" for number in range(PODS_TO_PLACE)]
        for name in names:
            await world.add_pod(name, **asking("500m"))
        assert {await placed(world, name) for name in names} == {idle}


async def test_pod_that_no_node_can_take_waits_with_a_reason(world, tmp_path):
    nodes = [await world.add_node(name) for name in ("a", "b")]
    for node in nodes:
        await annotate(world, node, BUSY)
    await world.start("--scorers=safe", **NO_AGENTS)
    async with world.plane.scheduler(world.evaluator.scorer("safe"), tmp_path):
        await world.add_pod("web", **asking("500m"))

        async def told():
            found = await world.client.get(PODS, "web", world.namespace)
            conditions = found.get("status", {}).get("conditions", [])
            return [one for one in conditions if "overload" in one.get("message", "")]

        [condition] = await world.eventually(told)
        assert condition["reason"] == "Unschedulable"
        assert not await node_of(world, "web")

"""When a rejected pod is retried: not while readings change, at once when a node is readmitted."""

import pytest

from sandbox.client.objects import PODS, POLICIES

pytestmark = [pytest.mark.e2e, pytest.mark.features("requeue")]

ASKED = 'plimsoll_extender_requests_total{code="200",outcome="decided",verb="filter"}'
REQUEUED_AT = 'plimsoll_nudges_total{result="ok"}'


@pytest.fixture
async def queue(world, tmp_path):
    """Two nodes that violate a policy, a waiting pod, and a scheduler."""
    nodes = [await world.add_node(name) for name in ("a", "b")]
    policy = await world.add_policy("demo", dontschedule=["heat GreaterThan 50"])
    for node in nodes:
        world.fleet.say(node, heat=60)
    await world.start()
    async with world.plane.scheduler(world.evaluator.extender, tmp_path):
        await world.add_pod("web", policy)
        await refused(world, "web")
        yield nodes, policy


async def refused(world, pod):
    """Wait until a pod's condition says that the policy rejects the nodes."""

    async def told():
        found = await world.client.get(PODS, pod, world.namespace)
        conditions = found.get("status", {}).get("conditions", [])
        return any("heat GreaterThan 50" in one.get("message", "") for one in conditions)

    await world.eventually(told)


async def node_of(world, pod):
    return (await world.client.get(PODS, pod, world.namespace))["spec"].get("nodeName")


async def test_changing_readings_do_not_make_the_scheduler_spin(world, queue):
    nodes, _ = queue
    before = await world.evaluator.metric(ASKED)
    for heat in range(60, 75):
        for node in nodes:
            world.fleet.say(node, heat=heat)
        reports = await world.evaluator.metric("plimsoll_agent_reports_total")

        async def reported(reports=reports):
            return await world.evaluator.metric("plimsoll_agent_reports_total") > reports

        await world.eventually(reported)
    assert await world.evaluator.metric(ASKED) == before
    assert await world.evaluator.metric(REQUEUED_AT) == 0


async def test_pod_is_placed_as_soon_as_its_node_is_readmitted(world, queue):
    nodes, _ = queue
    before = await world.evaluator.metric(ASKED)
    world.fleet.say(nodes[1], heat=40)

    async def placed():
        return await node_of(world, "web")

    # Without an event a scheduler would retry after five minutes.
    assert await world.eventually(placed) == nodes[1]
    assert await world.evaluator.metric(ASKED) == before + 1
    assert await world.evaluator.metric(REQUEUED_AT) == 1


async def test_pod_without_another_node_is_not_requeued(world, queue):
    nodes, policy = queue
    hostname = {"kubernetes.io/hostname": nodes[0]}
    await world.add_pod("tied", policy, nodeSelector=hostname)
    await refused(world, "tied")
    world.fleet.say(nodes[1], heat=40)

    async def placed():
        return await node_of(world, "web")

    await world.eventually(placed)
    found = await world.client.get(PODS, "tied", world.namespace)
    assert "annotations" not in found["metadata"]


async def test_node_readmitted_during_downtime_is_noticed_after_startup(world, queue):
    nodes, _ = queue
    await world.evaluator.stop(kill=True)
    world.fleet.say(nodes[0], heat=40)
    await world.start()

    async def placed():
        return await node_of(world, "web")

    assert await world.eventually(placed) == nodes[0]


async def test_deleted_policy_requeues_its_pods(world, queue):
    nodes, policy = queue
    await world.client.delete(POLICIES, policy, world.namespace)

    async def placed():
        return await node_of(world, "web")

    assert await world.eventually(placed) in nodes

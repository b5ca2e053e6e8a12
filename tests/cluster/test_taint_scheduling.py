"""Taints and kube-scheduler without an extender: pods keep away, are requeued, and prefer other nodes."""

import pytest

from sandbox.client.objects import PODS

pytestmark = [pytest.mark.e2e, pytest.mark.features("node_actions", "requeue")]

HARD = {
    "plimsoll.io/actions": "taint",
    "plimsoll.io/taint-effect": "NoSchedule",
    "plimsoll.io/max-nodes": "100%",
}
FLAGS = ("--taints", "--maxActedNodes=100%")


async def pod(world, name):
    return await world.client.get(PODS, name, world.namespace)


async def bound(world, name):
    """Wait until a pod is bound; return its node."""

    async def node():
        return (await pod(world, name))["spec"].get("nodeName")

    return await world.eventually(node)


async def rejected(world, name):
    """Wait until the scheduler found no node for a pod; return its message."""

    async def message():
        conditions = (await pod(world, name)).get("status", {}).get("conditions", [])
        return next((c["message"] for c in conditions if c.get("reason") == "Unschedulable"), None)

    return await world.eventually(message)


async def tainted(world, policy, count):
    """Wait until the evaluator's status says on how many nodes the policy acts."""
    labels = f'namespace="{world.namespace}",policy="{policy}"'

    async def agrees():
        written = await world.evaluator.metric('plimsoll_taint_writes_total{result="ok"}')
        acted = await world.evaluator.metric(f"plimsoll_policy_acted_nodes{{{labels}}}")
        return acted == count and (written or 0) >= count

    await world.eventually(agrees)


async def test_every_pod_keeps_away_and_is_requeued_when_the_taint_goes(world, tmp_path):
    nodes = [await world.add_node(name) for name in ("a", "b")]
    for node in nodes:
        world.fleet.say(node, health=2)
    policy = await world.add_policy("demo", dontschedule=["health Equals 2"], annotations=HARD)
    await world.start(*FLAGS, "--no-nudge")
    await tainted(world, policy, 2)
    async with world.plane.scheduler(None, tmp_path):
        await world.add_pod("web")  # without a policy
        assert "taint" in await rejected(world, "web")
        tolerant = {"key": f"plimsoll.io/{world.namespace}.{policy}", "operator": "Exists"}
        await world.add_pod("tolerant", tolerations=[tolerant])
        assert await bound(world, "tolerant") in nodes
        assert not (await pod(world, "web"))["spec"].get("nodeName")
        world.fleet.say(nodes[1], health=0)
        assert await bound(world, "web") == nodes[1]


async def test_pods_prefer_nodes_without_a_soft_taint(world, tmp_path):
    nodes = [await world.add_node(name) for name in ("a", "b", "c")]
    for node in nodes:
        world.fleet.say(node, health=2)
    world.fleet.say(nodes[1], health=0)
    await world.add_policy(
        "demo", dontschedule=["health Equals 2"], annotations={"plimsoll.io/actions": "taint"}
    )
    await world.start(*FLAGS)

    async def written():
        return await world.evaluator.metric('plimsoll_taint_writes_total{result="ok"}') == 2

    await world.eventually(written)
    async with world.plane.scheduler(None, tmp_path):
        for number in range(4):
            await world.add_pod(f"web-{number}")
            assert await bound(world, f"web-{number}") == nodes[1]

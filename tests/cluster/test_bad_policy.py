"""A policy that every node of a large cluster violates: the limit holds, and it is reported once."""

import asyncio
import os

import pytest

from sandbox.client.client import STRATEGIC
from sandbox.client.objects import EVENTS, NODES

pytestmark = [pytest.mark.e2e, pytest.mark.features("node_actions")]

COUNT = int(os.environ.get("PLIMSOLL_TEST_NODES", "200"))
AT_ONCE = 16

ALWAYS = {
    "strategies": {
        "dontschedule": {
            "rules": [
                {
                    "metricname": "never_reported",
                    "operator": "Equals",
                    "target": 1,
                    "whenMissing": "violate",
                }
            ]
        }
    }
}


@pytest.fixture
async def fleet(world):
    """Many nodes without agents."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def add(number):
        async with slots:
            return await world.add_node(f"n{number:04}")

    return await asyncio.gather(*map(add, range(COUNT)))


async def test_limit_holds_for_a_policy_that_every_node_violates(world, fleet):
    hard = await world.add_policy(
        "hard",
        spec=ALWAYS,
        annotations={
            "plimsoll.io/actions": "taint",
            "plimsoll.io/taint-effect": "NoSchedule",
            "plimsoll.io/max-nodes": "3",
        },
    )
    soft = await world.add_policy("soft", spec=ALWAYS, annotations={"plimsoll.io/actions": "taint"})
    await world.start("--taints", agent_limits={"reconnect": 0.0})
    status = await world.status(hard, lambda found: "MaxNodesReached" in str(found))
    assert f"acts on 3 nodes and not on {COUNT - 3} more" in str(status)

    async def written():
        return await world.evaluator.metric('plimsoll_taint_writes_total{result="ok"}') == 3

    await world.eventually(written)
    for _ in range(3):  # a reading of the other nodes changes nothing
        body = {"type": "Test", "status": "True", "reason": "Test", "message": ""}
        await world.client.patch(
            NODES,
            fleet[-1],
            {"status": {"conditions": [body]}},
            subresource="status",
            content_type=STRATEGIC,
        )
    await world.client.delete(NODES, fleet[0])  # its place is free

    async def replaced():
        found = await world.client.get(NODES, fleet[3])
        return any(t["key"].endswith(hard) for t in found["spec"].get("taints", []))

    await world.eventually(replaced)
    nodes = (await world.client.list(NODES)).items
    own = [
        (node["metadata"]["name"], taint["key"])
        for node in nodes
        for taint in node["spec"].get("taints", [])
        if taint["key"].startswith("plimsoll.io/")
    ]
    key = f"plimsoll.io/{world.namespace}.{hard}"
    assert sorted(own) == [(node, key) for node in fleet[1:4]]  # and none of the soft policy
    assert await world.evaluator.metric('plimsoll_taint_writes_total{result="ok"}') == 4
    assert await world.evaluator.metric('plimsoll_taint_writes_total{result="error"}') is None
    events = (await world.client.list(EVENTS, world.namespace)).items
    told = [
        (one["involvedObject"]["name"], one["count"])
        for one in events
        if one["reason"].startswith("NodeLimit")
    ]
    assert told == [(hard, 1)]
    assert soft in {one["involvedObject"]["name"] for one in events}

"""Pods that name a policy which does not apply to them: events and numbers, on an API server."""

import pytest

from sandbox.client import events

pytestmark = pytest.mark.e2e

NO_REQUEST = [{"name": "c", "image": "none"}]


async def test_pod_that_its_policy_ignores_is_reported(world):
    node = await world.add_node("a")
    policy = await world.add_policy("demo", dontschedule=["health Equals 1"])
    world.fleet.say(node, health=0)
    await world.start()
    await world.add_pod("asks", policy)
    await world.add_pod("lacks", policy, containers=NO_REQUEST)
    await world.add_pod("lost", f"{policy}x")

    async def event(pod):
        return await events.find(world.client, world.namespace, pod, "PolicyNotApplied")

    found = await world.eventually(lambda: event("lacks"))
    assert (found["type"], found["count"]) == ("Warning", 1)
    assert 'add `telemetry/scheduling: "1"`' in found["message"]
    found = await world.eventually(lambda: event("lost"))
    assert f"such as telemetry-policy: {policy}" in found["message"]
    assert await event("asks") is None
    await world.status(policy, lambda status: status.get("pods") == {"following": 1, "ignored": 1})
    labels = f'namespace="{world.namespace}",policy="{policy}"'
    for state in ("following", "ignored"):
        assert (
            await world.evaluator.metric(f'plimsoll_policy_pods{{{labels},state="{state}"}}') == 1
        )

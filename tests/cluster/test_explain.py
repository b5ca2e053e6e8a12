"""/explain?pod= of pods with and without a policy, read from an API server."""

import json

import pytest

from sandbox.client.objects import NODES

pytestmark = pytest.mark.e2e


async def explained(world, pod, status=200):
    code, text = await world.evaluator.get(f"/explain?pod={world.namespace}/{pod}")
    assert code == status, text
    return json.loads(text)


async def test_refused_pod_is_explained_with_rule_value_and_the_schedulers_message(world, tmp_path):
    sick, tainted = await world.add_node("sick"), await world.add_node("tainted")
    taint = {"key": "gpu", "effect": "NoSchedule"}
    await world.client.patch(NODES, tainted, {"spec": {"taints": [taint]}})
    policy = await world.add_policy("demo", dontschedule=["health Equals 2"])
    world.fleet.say(sick, health=2)
    world.fleet.say(tainted, health=0)
    await world.start()
    # Other scenarios' nodes may exist on the same API server.
    mine = {"nodeSelector": {world.marks: world.suffix}}
    async with world.plane.scheduler(world.evaluator.extender, tmp_path):
        await world.add_pod("web", policy, **mine)

        async def told():
            page = await explained(world, "web")
            return page if page["schedulerMessage"] else None

        page = await world.eventually(told)
    assert f"violating {policy}: health Equals 2" in page["schedulerMessage"]
    assert page["turnedAwayByPlimsoll"] is True
    assert page["summary"] == f"policy {world.namespace}/{policy} refuses 1 of 1 feasible node"
    [rule] = page["nodes"][sick]["rules"]
    assert (rule["rule"], rule["target"], rule["value"]) == ("health Equals 2", "2", 2.0)
    assert page["nodes"][tainted]["obstacles"] == ["taint gpu:NoSchedule is not tolerated"]


async def test_pod_without_a_policy_is_read_from_the_api_server(world):
    await world.add_node("a")
    await world.start()
    await world.add_pod("plain", schedulingGates=[{"name": "example.com/quota"}])
    page = await explained(world, "plain")
    assert (page["policy"], page["gates"]) == (None, ["example.com/quota"])
    assert page["summary"] == "it is held by 1 scheduling gate: example.com/quota"
    assert (await explained(world, "nobody", 404))["error"].startswith("no pod ")

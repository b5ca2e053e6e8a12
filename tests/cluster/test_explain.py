"""/explain?pod= of pods with and without a policy, read from an API server."""

import json
import socket

import pytest

from sandbox.client.objects import NODES, PODS

pytestmark = [pytest.mark.e2e, pytest.mark.features("pages")]


@pytest.fixture
def refusing_port():
    """A port that refuses connections: it is bound, and nothing listens on it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


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


async def test_nomination_to_a_refused_node_is_named_on_the_pod_and_the_policy(world):
    """As kube-scheduler writes it if its configuration has no preemptVerb."""
    sick, well = await world.add_node("sick"), await world.add_node("well")
    policy = await world.add_policy("demo", dontschedule=["health Equals 2"])
    world.fleet.say(sick, health=2)
    world.fleet.say(well, health=0)
    await world.start()
    await world.add_pod("web", policy)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    full = condition | {"message": "0/2 nodes are available: 2 Insufficient cpu."}
    told = {"status": {"conditions": [full], "nominatedNodeName": sick}}
    await world.client.patch(PODS, "web", told, world.namespace, subresource="status")

    async def named():
        page = await explained(world, "web")
        return page if "nominatedNode" in page else None

    page = await world.eventually(named)
    assert (page["turnedAwayByPlimsoll"], page["nominatedNode"]) == (True, sick)
    refuses = f"nominated to {sick}, which policy {world.namespace}/{policy} refuses"
    assert page["summary"].startswith(refuses)

    def is_said(status):
        return "1 pod is nominated to a node that the policy refuses" in json.dumps(status)

    await world.status(policy, is_said)
    gone = {"status": {"nominatedNodeName": None}}
    await world.client.patch(PODS, "web", gone, world.namespace, subresource="status")
    await world.status(policy, lambda status: not is_said(status))


@pytest.mark.parametrize("mode", ["enforce", "observe"])
async def test_extender_that_is_not_reachable_is_an_error_and_no_refusal(
    world, tmp_path, mode, refusing_port
):
    sick = await world.add_node("sick")
    annotations = {"plimsoll.io/enforcement": mode}
    policy = await world.add_policy(
        "demo", dontschedule=["health Equals 2"], annotations=annotations
    )
    world.fleet.say(sick, health=2)
    await world.start()
    mine = {"nodeSelector": {world.marks: world.suffix}}
    async with world.plane.scheduler(f"http://127.0.0.1:{refusing_port}", tmp_path):
        await world.add_pod("web", policy, **mine)

        async def told():
            page = await explained(world, "web")
            return page if page["schedulerMessage"] else None

        page = await world.eventually(told)
    assert page["schedulerReason"] == "SchedulerError"
    assert f"127.0.0.1:{refusing_port}" in page["schedulerMessage"]
    assert page["turnedAwayByPlimsoll"] is None
    name = f"{world.namespace}/{policy}"
    ended, _, now = page["summary"].partition("; ")
    assert (
        ended
        == "kube-scheduler's last attempt ended in an error, not in a refusal: see its message"
    )
    assert (
        now
        == {
            "enforce": f"policy {name} would refuse 1 of 1 feasible node",
            "observe": f"policy {name} is only observed; Plimsoll permits it on 1 of 1 feasible node",
        }[mode]
    )


async def test_pod_without_a_policy_is_read_from_the_api_server(world):
    await world.add_node("a")
    await world.start()
    await world.add_pod("plain", schedulingGates=[{"name": "example.com/quota"}])
    page = await explained(world, "plain")
    assert (page["policy"], page["gates"]) == (None, ["example.com/quota"])
    assert page["summary"] == "it is held by 1 scheduling gate: example.com/quota"
    assert (await explained(world, "nobody", 404))["error"].startswith("no pod ")

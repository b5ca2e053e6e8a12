"""Taints written by the real evaluator: beside those of others, within the limit, and taken off again."""

import asyncio

import pytest

from sandbox.client.client import ApiError
from sandbox.client.objects import EVENTS, NODES, POLICIES

pytestmark = [pytest.mark.e2e, pytest.mark.features("node_actions")]

HARD = {"plimsoll.io/actions": "taint", "plimsoll.io/taint-effect": "NoSchedule"}
FOREIGN = {"key": "example.com/gpu", "value": "x", "effect": "NoSchedule"}


async def taints(world, node):
    return (await world.client.get(NODES, node))["spec"].get("taints", [])


async def tainted(world, node, *wanted):
    """Wait until a node has exactly these taints."""

    async def agree():
        found = await taints(world, node)
        return sorted(found, key=str) == sorted(wanted, key=str)

    try:
        await world.eventually(agree)
    except TimeoutError:
        found = await taints(world, node)
        raise AssertionError(f"{node} has {found}{world.evaluator.log()}") from None


def taint(world, policy, effect="NoSchedule", prefix="plimsoll.io/"):
    return {"key": f"{prefix}{world.namespace}.{policy}", "value": "violating", "effect": effect}


async def several(world, count):
    nodes = [await world.add_node(f"n{number}") for number in range(count)]
    for node in nodes:
        world.fleet.say(node, health=0)
    return nodes


async def test_taint_is_set_beside_those_of_others_and_taken_off_again(world):
    node, *_ = await several(world, 3)
    policy = await world.add_policy("demo", dontschedule=["health Equals 2"], annotations=HARD)
    await world.client.patch(NODES, node, {"spec": {"taints": [FOREIGN], "unschedulable": True}})
    world.fleet.say(node, health=2)
    await world.start("--taints", "--maxActedNodes=100%")
    cordoned = [one for one in await taints(world, node) if "unschedulable" in one["key"]]
    await tainted(world, node, FOREIGN, taint(world, policy), *cordoned)
    world.fleet.say(node, health=0)
    await tainted(world, node, FOREIGN, *cordoned)
    assert (await world.client.get(NODES, node))["spec"]["unschedulable"] is True


async def test_effects_and_prefix(world):
    node, *_ = await several(world, 3)
    prefix = "status-taint.cluster-autoscaler.kubernetes.io/plimsoll-"
    world.fleet.say(node, health=2)
    soft = await world.add_policy(
        "soft", dontschedule=["health Equals 2"], annotations={"plimsoll.io/actions": "taint"}
    )
    gone = await world.add_policy(
        "gone",
        deschedule=["health Equals 2"],
        annotations=HARD | {"plimsoll.io/taint-effect": "NoExecute"},
    )
    flags = ("--taints", "--maxActedNodes=100%", f"--taintPrefix={prefix}")
    await world.start(*flags)
    await tainted(
        world,
        node,
        taint(world, soft, "PreferNoSchedule", prefix),
        taint(world, gone, "NoSchedule", prefix),
    )
    status = await world.status(gone, lambda found: "allowNoExecute" in str(found))
    assert "NoSchedule is set instead" in str(status)
    await world.evaluator.stop()
    await world.start("--taints", "--maxActedNodes=100%", "--allowNoExecute")
    # The prefix has changed, and the old taints are gone.
    await tainted(
        world,
        node,
        taint(world, soft, "PreferNoSchedule"),
        taint(world, gone, "NoSchedule"),
        taint(world, gone, "NoExecute"),
    )


async def test_bad_policy_stops_at_its_limit_and_says_so_once(world):
    nodes = await several(world, 5)
    policy = await world.add_policy("demo", dontschedule=["health Equals 2"], annotations=HARD)
    for node in nodes:
        world.fleet.say(node, health=2)
    await world.start("--taints", "--maxActedNodes=100%")
    status = await world.status(policy, lambda found: "NodeLimitReached" in str(found))
    limit = next(c for c in status["conditions"] if c["type"] == "NodeLimitReached")
    assert (limit["status"], limit["reason"]) == ("True", "MaxNodesReached")
    assert limit["message"] == (
        "acts on 1 node and not on 4 more: the limit is plimsoll.io/max-nodes, 1 of 5 that it can match"
    )
    await tainted(world, nodes[0], taint(world, policy))

    async def reasons():
        found = await world.client.list(EVENTS, world.namespace)
        about = [e for e in found.items if e["involvedObject"]["name"] == policy]
        return [(e["reason"], e.get("count")) for e in about if e["reason"].startswith("NodeLimit")]

    async def told():
        return await reasons()

    await world.eventually(told)
    await world.evaluator.stop(kill=True)
    await world.start("--taints", "--maxActedNodes=100%")
    world.fleet.say(nodes[0], health=0)  # the next one by name takes its place
    await tainted(world, nodes[0])
    await tainted(world, nodes[1], taint(world, policy))
    for node in nodes[2:]:
        await tainted(world, node)
    assert await reasons() == [("NodeLimitReached", 1)]
    acted = f'plimsoll_policy_acted_nodes{{namespace="{world.namespace}",policy="{policy}"}}'
    assert await world.evaluator.metric(acted) == 1
    assert await world.evaluator.metric(acted.replace("acted", "held_back")) == 3


async def test_limit_of_the_cluster_counts_nodes_of_all_policies(world):
    nodes = await several(world, 4)
    for name in ("one", "two"):
        await world.add_policy(
            name,
            dontschedule=["health Equals 2"],
            annotations=HARD | {"plimsoll.io/max-nodes": "4"},
        )
    for node in nodes:
        world.fleet.say(node, health=2)
    await world.start("--taints", "--maxActedNodes=2")
    both = [taint(world, world.name(name)) for name in ("one", "two")]
    for node in nodes[:2]:
        await tainted(world, node, *both)
    for node in nodes[2:]:
        await tainted(world, node)


async def test_two_writers_conflict_and_converge(world):
    node, *_ = await several(world, 3)
    policy = await world.add_policy("demo", dontschedule=["health Equals 2"], annotations=HARD)
    await world.start("--taints", "--maxActedNodes=100%")
    ours = taint(world, policy)
    for round_ in range(12):
        world.fleet.say(node, health=2 if round_ % 2 == 0 else 0)
        theirs = FOREIGN | {"value": f"x{round_}"}
        while True:  # another controller: reads, replaces its own taint, writes with the version
            found = await world.client.get(NODES, node)
            kept = [one for one in found["spec"].get("taints", []) if one["key"] != FOREIGN["key"]]
            body = {
                "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
                "spec": {"taints": [theirs, *kept]},
            }
            try:
                await world.client.patch(NODES, node, body)
                break
            except ApiError as error:
                if error.status != 409:
                    raise
        wanted = [theirs, ours] if round_ % 2 == 0 else [theirs]
        await tainted(world, node, *wanted)


async def test_kill_between_decision_and_patch_leaves_no_orphan(world):
    node, *_ = await several(world, 3)
    policy = await world.add_policy("demo", dontschedule=["health Equals 2"], annotations=HARD)
    await world.start("--taints", "--maxActedNodes=100%")
    for _ in range(3):
        world.fleet.say(node, health=2)
        await asyncio.sleep(0.02)
        await world.evaluator.stop(kill=True)
        world.fleet.say(node, health=0)
        await world.start("--taints", "--maxActedNodes=100%")
        await tainted(world, node)
    world.fleet.say(node, health=2)
    await tainted(world, node, taint(world, policy))
    await world.evaluator.stop(kill=True)
    await world.client.delete(POLICIES, policy, world.namespace)
    await world.start()  # also without --taints
    await tainted(world, node)

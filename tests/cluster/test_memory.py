"""The memory of failures, written by the real evaluator: at transitions only, by the leader only, and through kill -9."""

import json
import re
from pathlib import Path

import pytest
import yaml

from sandbox.client.objects import NODES, POLICIES
from tests.cluster.replicas import SHORT, Replicas

pytestmark = [pytest.mark.e2e, pytest.mark.features("memory", "node_actions", "pages")]

ROOT = Path(__file__).parents[2]
MEMORY = {"plimsoll.io/memory": "30d"}


async def annotation(world, node):
    found = await world.client.get(NODES, node)
    text = (found["metadata"].get("annotations") or {}).get("plimsoll.io/memory")
    return json.loads(text)["scores"] if text else {}


async def remembered(world, node, policy, score, *, violated):
    """Wait until the score of a node has been counted up to `score`, and whether the violation goes on."""
    key = f"{world.namespace}/{policy}"

    async def agree():
        found = (await annotation(world, node)).get(key, {})
        counted = round(found.get("score", 0))
        return (counted, bool(found.get("violated"))) == (score, violated)

    try:
        await world.eventually(agree)
    except TimeoutError:
        found = await annotation(world, node)
        raise AssertionError(f"{node} has {found}{world.evaluator.log()}") from None


async def two_nodes(world):
    nodes = [await world.add_node(name) for name in ("a", "b")]
    for node in nodes:
        world.fleet.say(node, health=0)
    return nodes


async def test_violation_counts_once_through_kill_9_and_shows_everywhere(world):
    node, other = await two_nodes(world)
    policy = await world.add_policy("demo", dontschedule=["health Equals 2"], annotations=MEMORY)
    await world.start()
    world.fleet.say(node, health=2)
    await remembered(world, node, policy, 1, violated=True)
    for _ in range(2):
        await world.evaluator.stop(kill=True)
        await world.start()
        await world.status(policy, lambda found: found.get("compliance") == "Violated")
    await remembered(world, node, policy, 1, violated=True)
    version = (await world.client.get(NODES, node))["metadata"]["resourceVersion"]
    page = json.loads((await world.evaluator.get(f"/explain?node={node}"))[1])
    shown = page["written"]["memory"][f"{world.namespace}/{policy}"]
    assert (round(shown["score"], 2), shown["violated"]) == (1.0, True)
    assert (await world.client.get(NODES, node))["metadata"]["resourceVersion"] == version
    # Killed while the violation ends: the next process writes that.
    await world.evaluator.stop(kill=True)
    world.fleet.say(node, health=0)
    await world.start()
    await remembered(world, node, policy, 1, violated=False)
    world.fleet.say(node, health=2)
    await remembered(world, node, policy, 2, violated=True)
    assert await annotation(world, other) == {}


async def test_score_in_a_rule_and_forgetting(world):
    node, _ = await two_nodes(world)
    policy = await world.add_policy("demo", dontschedule=["health Equals 2"], annotations=MEMORY)
    lemon = await world.add_policy(
        "lemon", labeling=[f"violation_score_{policy} GreaterThan 0: lemon=yes"]
    )
    await world.start()
    world.fleet.say(node, health=2)
    await world.labelled(node, **{f"telemetry.aware.scheduling.{lemon}/lemon": "yes"})
    world.fleet.say(node, health=0)
    await remembered(world, node, policy, 1, violated=False)
    body = {"metadata": {"annotations": {"plimsoll.io/memory": None}}}
    await world.client.patch(NODES, node, body)
    await world.labelled(node)


async def test_only_the_leader_writes(world, tmp_path):
    node, _ = await two_nodes(world)
    policy = await world.add_policy("demo", dontschedule=["health Equals 2"], annotations=MEMORY)
    replicas = Replicas(world, tmp_path)
    try:
        await replicas.start(2, *SHORT)
        for one in replicas.all:
            one.fleet.say(node, health=2)
        await remembered(world, node, policy, 1, violated=True)
        metric = 'plimsoll_memory_writes_total{result="ok"}'
        writes = {one: await one.evaluator.metric(metric) or 0 for one in replicas.all}
        (leader,) = [one for one in replicas.all if await one.leads()]
        assert {one: count for one, count in writes.items() if count} == {leader: 1}
        await leader.evaluator.stop(kill=True)
        (heir,) = [one for one in replicas.all if one is not leader]
        await world.eventually(heir.leads)
        heir.fleet.say(node, health=0)
        await remembered(world, node, policy, 1, violated=False)
    finally:
        await replicas.close()


def documented(world):
    """The policies of docs/peers.md as written there, with shorter durations."""
    text = (ROOT / "docs/peers.md").read_text()
    _, block = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    for long, short in (("5m", "1s"), ("30m", "1s"), ("1h", "1s")):
        block = re.sub(rf"(for|clearAfter): {long}\b", rf"\1: {short}", block)
    for policy in yaml.safe_load_all(block):
        policy["metadata"] |= {"namespace": world.namespace, "labels": {world.marks: world.suffix}}
        yield policy


async def test_policies_of_the_documentation_taint_slow_nodes_and_keep_repeaters(world):
    nodes = [await world.add_node(f"n{number}") for number in range(9)]
    metric = "node_nvme_read_latency_seconds"
    for number, node in enumerate(nodes):
        world.fleet.say(node, **{metric: 1e-4 + number * 1e-7})
    for policy in documented(world):
        await world.client.create(POLICIES, policy)
    await world.start("--taints", "--maxActedNodes=100%")
    slow, *others = nodes

    async def tainted(node):
        found = (await world.client.get(NODES, node))["spec"].get("taints", [])
        return {taint["key"].partition(f"{world.namespace}.")[2] for taint in found}

    async def found_slow():
        return "slow-nvme" in await tainted(slow)

    for count in (1, 2):
        world.fleet.say(slow, **{metric: 3e-4})
        await remembered(world, slow, "slow-nvme", count, violated=True)
        await world.eventually(found_slow)
        world.fleet.say(slow, **{metric: 1e-4})
        await remembered(world, slow, "slow-nvme", count, violated=False)

    async def kept():
        return await tainted(slow) == {"slow-nvme-repeaters"}

    await world.eventually(kept)
    assert [await tainted(node) for node in others] == [set()] * len(others)

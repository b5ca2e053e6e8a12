"""`plimsoll-evaluator clean` removes from nodes what Plimsoll wrote, and nothing else."""

import sys

import pytest

from sandbox.client.objects import NODES
from tests import preloaded

pytestmark = pytest.mark.e2e

FOREIGN = {"key": "example.com/gpu", "value": "x", "effect": "NoSchedule"}
EVERYTHING = {"plimsoll.io/actions": "label,taint,condition"}


async def clean(world, *flags):
    """Run the command as an administrator would; return its lines about this scenario's nodes."""
    config = f"--kubeConfig={world.plane.kubeconfig}"
    command = (sys.executable, "-P", "-m", "evaluator", "clean", config, *flags)
    status, out, err = await preloaded.run(command)
    assert status == 0, err
    return [line for line in out.splitlines() if world.suffix in line.partition(":")[0]]


async def test_everything_of_ours_is_removed_and_nothing_else(world):
    node, other = await world.add_node("a"), await world.add_node("b")
    await world.client.patch(NODES, node, {"spec": {"taints": [FOREIGN]}})
    before = await world.client.get(NODES, node)
    policy = await world.add_policy(
        "demo",
        deschedule=["health Equals 2"],
        annotations=EVERYTHING | {"plimsoll.io/condition-type": "example.com/Ill"},
    )
    world.fleet.say(node, health=2)
    world.fleet.say(other, health=0)
    await world.start("--taints", "--conditions", "--maxActedNodes=100%")
    key = f"plimsoll.io/{world.namespace}.{policy}"

    async def acted_on():
        found = await world.client.get(NODES, node)
        return (
            any(taint["key"] == key for taint in found["spec"]["taints"])
            and any(c["type"] == "example.com/Ill" for c in found["status"]["conditions"])
            and found["metadata"]["labels"].get(policy) == "violating"
        )

    await world.eventually(acted_on)
    await world.evaluator.stop(kill=True)
    found = await world.client.get(NODES, node)
    assert await clean(world, "--dry-run") == [
        f"{node}: would remove condition example.com/Ill; taint {key}; label {policy}"
    ]
    assert await world.client.get(NODES, node) == found
    assert await clean(world) == [
        f"{node}: removed condition example.com/Ill; taint {key}; label {policy}"
    ]
    after = await world.client.get(NODES, node)
    assert (after["spec"], after["status"]) == (before["spec"], before["status"])
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert await clean(world) == []

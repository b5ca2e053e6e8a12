"""`adopt-labels` lets the evaluator remove node labels left by Telemetry Aware Scheduling, and no others."""

import sys

import pytest

from sandbox.client.client import APPLY, JSON_PATCH
from sandbox.client.objects import NODES
from tests import preloaded

pytestmark = pytest.mark.e2e


async def write_as_tas(world, node, key, value="violating"):
    """As TAS did: by JSON patch, with the default field manager of its client."""
    spelled = key.replace("/", "~1")
    patch = ({"op": "add", "path": f"/metadata/labels/{spelled}", "value": value},)
    await world.client.patch(NODES, node, patch, content_type=JSON_PATCH)


@pytest.fixture
async def left(world):
    """Two nodes as left by TAS, one no longer violating, and the name of the policy."""
    well, sick = await world.add_node("well"), await world.add_node("sick")
    policy = await world.add_policy(
        "demo",
        deschedule=["health Equals 2"],
        labeling=["health Equals 2: state=bad"],
    )
    for node in (well, sick):
        await write_as_tas(world, node, policy)
        await write_as_tas(world, node, f"telemetry.aware.scheduling.{policy}/state", "bad")
        await write_as_tas(world, node, world.name("mine"), "1")
    world.fleet.say(well, health=0)
    world.fleet.say(sick, health=2)
    return well, sick, policy


async def adopt(world):
    """Run the command as an administrator would."""
    config = f"--kubeConfig={world.plane.kubeconfig}"
    command = (sys.executable, "-P", "-m", "evaluator", "adopt-labels", config)
    status, _, err = await preloaded.run(command)
    assert status == 0, err


def named(policy):
    return {policy: "violating", f"telemetry.aware.scheduling.{policy}/state": "bad"}


async def has(world, node, wanted):
    async def agrees():
        return await world.labels(node) == wanted

    try:
        await world.eventually(agrees)
    except TimeoutError:
        found = await world.labels(node)
        raise AssertionError(f"{node}: {found}, not {wanted}{world.evaluator.log()}") from None


async def test_unwanted_labels_are_removed_at_once_and_wanted_ones_later(world, left):
    well, sick, policy = left
    mine = {world.name("mine"): "1"}
    await adopt(world)
    await world.start()
    await has(world, well, mine)
    await has(world, sick, {**named(policy), **mine})
    world.fleet.say(sick, health=0)
    await has(world, sick, mine)


async def test_labels_stay_without_the_command(world, left):
    """They may be a user's: only an administrator can decide to delete them."""
    well, sick, policy = left
    mine = {world.name("mine"): "1"}
    await world.start()
    world.fleet.say(sick, health=0)
    other = await world.add_node("other")
    world.fleet.say(other, health=2)
    await has(world, other, named(policy))
    assert await world.labels(well) == {**named(policy), **mine}


async def test_labels_applied_by_another_manager_stay(world, left):
    well, _sick, policy = left
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": well, "labels": {policy: "violating"}},
    }
    params = {"fieldManager": "argocd"}
    path = NODES.path("", well)
    await world.client.request("PATCH", path, body=body, params=params, content_type=APPLY)
    await adopt(world)
    await world.start()
    await has(world, well, {policy: "violating", world.name("mine"): "1"})

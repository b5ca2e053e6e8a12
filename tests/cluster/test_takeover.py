"""A cluster that Telemetry Aware Scheduling has labelled, and Plimsoll in its place: its labels go, and nobody else's."""

import pytest

from sandbox.client.client import APPLY, JSON_PATCH
from sandbox.client.objects import NODES

pytestmark = pytest.mark.e2e


async def write_as_tas(world, node, key, value="violating"):
    """As TAS wrote: by JSON patch, under the manager name that its client came with."""
    spelled = key.replace("/", "~1")
    patch = ({"op": "add", "path": f"/metadata/labels/{spelled}", "value": value},)
    await world.client.patch(NODES, node, patch, content_type=JSON_PATCH)


@pytest.fixture
async def left(world):
    """Two nodes as TAS left them, of which one violates no more, and the name of its policy."""
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


async def test_what_is_not_wanted_goes_now_and_what_is_goes_later(world, left):
    well, sick, policy = left
    mine = {world.name("mine"): "1"}
    await world.start("--takeOverLabels")
    await has(world, well, mine)
    await has(world, sick, {**named(policy), **mine})
    world.fleet.say(sick, health=0)
    await has(world, sick, mine)


async def test_unasked_they_stay(world, left):
    """They may as well be a user's: then nothing but the wish of one would justify to delete them."""
    well, sick, policy = left
    mine = {world.name("mine"): "1"}
    await world.start()
    world.fleet.say(sick, health=0)
    other = await world.add_node("other")
    world.fleet.say(other, health=2)
    await has(world, other, named(policy))
    assert await world.labels(well) == {**named(policy), **mine}


async def test_what_somebody_applies_stays_theirs(world, left):
    well, _sick, policy = left
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": well, "labels": {policy: "violating"}},
    }
    params = {"fieldManager": "argocd"}
    path = NODES.path("", well)
    await world.client.request("PATCH", path, body=body, params=params, content_type=APPLY)
    await world.start("--takeOverLabels")
    await has(world, well, {policy: "violating", world.name("mine"): "1"})

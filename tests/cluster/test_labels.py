"""The life of a node's labels, written by the real evaluator: set, changed, taken off, and never a user's."""

import pytest

pytestmark = pytest.mark.e2e


async def test_labels_follow_the_readings(world):
    node = await world.add_node("a")
    policy = await world.add_policy("demo", deschedule=["health Equals 2"])
    world.fleet.say(node, health=2)
    await world.start()
    await world.labelled(node, **{policy: "violating"})
    world.fleet.say(node, health=0)
    await world.labelled(node)

"""Node labels written by the real evaluator: set, changed, removed, and never a user's."""

import time

import pytest

from sandbox.client.client import ApiError
from sandbox.client.objects import NODES, POLICIES

pytestmark = pytest.mark.e2e


async def versions(world, *nodes):
    """The resourceVersions of nodes: an unchanged one was not written."""
    found = [await world.client.get(NODES, node) for node in nodes]
    return [node["metadata"]["resourceVersion"] for node in found]


async def test_labels_follow_the_readings(world):
    node = await world.add_node("a")
    policy = await world.add_policy("demo", deschedule=["health Equals 2"])
    world.fleet.say(node, health=2)
    await world.start()
    await world.labelled(node, **{policy: "violating"})
    world.fleet.say(node, health=0)
    await world.labelled(node)


async def test_labels_of_a_labeling_strategy_change_with_its_rules(world):
    node = await world.add_node("a")
    rules = ["health Equals 1: state=limping", "health Equals 2: state=sick"]
    policy = await world.add_policy("demo", labeling=rules)
    key = f"telemetry.aware.scheduling.{policy}/state"
    world.fleet.say(node, health=1)
    await world.start()
    await world.labelled(node, **{key: "limping"})
    world.fleet.say(node, health=2)
    await world.labelled(node, **{key: "sick"})
    await world.edit_policy(policy, labeling=["health Equals 2: other=sick"])
    await world.labelled(node, **{f"telemetry.aware.scheduling.{policy}/other": "sick"})


async def test_user_label_of_the_same_key_is_kept(world):
    node, other = await world.add_node("a"), await world.add_node("b")
    policy = await world.add_policy("demo", deschedule=["health Equals 2"])
    await world.client.patch(NODES, node, {"metadata": {"labels": {policy: "mine"}}})
    for one in (node, other):
        world.fleet.say(one, health=2)
    await world.start()
    await world.labelled(other, **{policy: "violating"})
    await world.labelled(node, **{policy: "mine"})
    told = await world.status(
        policy, lambda status: "is owned by another field manager" in str(status)
    )
    assert told["compliance"] == "Violated"
    await world.client.delete(POLICIES, policy, world.namespace)
    await world.labelled(other)
    await world.labelled(node, **{policy: "mine"})


async def test_label_conflict_blocks_no_other_label(world):
    node = await world.add_node("a")
    policy = await world.add_policy(
        "demo", deschedule=["health Equals 2"], labeling=["health Equals 2: state=sick"]
    )
    await world.client.patch(NODES, node, {"metadata": {"labels": {policy: "mine"}}})
    world.fleet.say(node, health=2)
    await world.start()
    key = f"telemetry.aware.scheduling.{policy}/state"
    await world.labelled(node, **{policy: "mine", key: "sick"})


async def test_label_removed_by_a_user_is_restored(world):
    node = await world.add_node("a")
    policy = await world.add_policy("demo", deschedule=["health Equals 2"])
    world.fleet.say(node, health=2)
    await world.start()
    await world.labelled(node, **{policy: "violating"})
    before = await versions(world, node)
    await world.client.patch(NODES, node, {"metadata": {"labels": {policy: None}}})
    await world.eventually(lambda: _changed_twice(world, node, before))
    await world.labelled(node, **{policy: "violating"})


async def _changed_twice(world, node, before):
    return await world.labels(node) and await versions(world, node) != before


async def test_deleted_node_is_not_recreated(world):
    node, other = await world.add_node("a"), await world.add_node("b")
    policy = await world.add_policy("demo", deschedule=["health Equals 2"])
    for one in (node, other):
        world.fleet.say(one, health=0)
    await world.start()
    await world.client.delete(NODES, node)
    for one in (node, other):
        world.fleet.say(one, health=2)
    await world.labelled(other, **{policy: "violating"})
    with pytest.raises(ApiError) as gone:
        await world.client.get(NODES, node)
    assert gone.value.status == 404


async def test_recreated_node_is_labelled_again(world):
    node = await world.add_node("a")
    policy = await world.add_policy("demo", deschedule=["health Equals 2"])
    world.fleet.say(node, health=2)
    await world.start()
    await world.labelled(node, **{policy: "violating"})
    await world.client.delete(NODES, node)
    await world.add_node("a")
    await world.labelled(node, **{policy: "violating"})


@pytest.mark.parametrize("kill", [False, True], ids=["SIGTERM", "SIGKILL"])
async def test_restart_writes_no_correct_label_again(world, kill):
    sick, well = await world.add_node("sick"), await world.add_node("well")
    policy = await world.add_policy("demo", deschedule=["health Equals 2"])
    world.fleet.say(sick, health=2)
    world.fleet.say(well, health=0)
    # Readings must not turn stale because the machine is busy: the label would correctly be removed and restored.
    await world.start("--staleAfter=60s")
    await world.labelled(sick, **{policy: "violating"})
    before = await versions(world, sick, well)
    await world.evaluator.stop(kill=kill)
    await world.start("--staleAfter=60s")
    # It writes again: another node's label shows that it has processed these.
    other = await world.add_node("other")
    world.fleet.say(other, health=2)
    await world.labelled(other, **{policy: "violating"})
    assert await versions(world, sick, well) == before, world.evaluator.log()


async def test_labels_stay_after_a_restart_until_agents_can_reconnect(world):
    node = await world.add_node("a")
    policy = await world.add_policy("demo", deschedule=["health Equals 2"])
    world.fleet.say(node, health=2)
    await world.start("--staleAfter=5s")
    await world.labelled(node, **{policy: "violating"})
    await world.evaluator.stop()
    await world.fleet.silence(node)
    assert await world.labels(node) == {policy: "violating"}
    began = time.monotonic()
    await world.start("--staleAfter=2s", agent_limits={"reconnect": 4.0})
    await world.labelled(node)
    # It is measured from before the start: a busy machine only makes it longer.
    assert time.monotonic() - began > 4, world.evaluator.log()


async def test_policy_deleted_during_downtime_leaves_no_label(world):
    node = await world.add_node("a")
    policy = await world.add_policy("demo", deschedule=["health Equals 2"])
    stays = await world.add_policy("stays", deschedule=["health Equals 2"])
    world.fleet.say(node, health=2)
    await world.start()
    await world.labelled(node, **{policy: "violating", stays: "violating"})
    await world.evaluator.stop(kill=True)
    await world.client.delete(POLICIES, policy, world.namespace)
    await world.start()
    await world.labelled(node, **{stays: "violating"})


async def test_removed_strategy_removes_only_its_labels(world):
    node = await world.add_node("a")
    policy = await world.add_policy(
        "demo", deschedule=["health Equals 2"], labeling=["health Equals 2: state=sick"]
    )
    key = f"telemetry.aware.scheduling.{policy}/state"
    world.fleet.say(node, health=2)
    await world.start()
    await world.labelled(node, **{policy: "violating", key: "sick"})
    await world.edit_policy(policy, deschedule=["health Equals 2"])
    await world.labelled(node, **{policy: "violating"})


async def test_two_policies_of_one_name_share_their_label(world):
    first, second = await world.add_node("a"), await world.add_node("b")
    elsewhere = f"{world.namespace}-b"
    await world.add_namespace(elsewhere)
    policy = await world.add_policy("demo", deschedule=["health Equals 1"])
    await world.add_policy("demo", elsewhere, deschedule=["health Equals 2"])
    world.fleet.say(first, health=1)
    world.fleet.say(second, health=2)
    await world.start()
    for node in (first, second):
        await world.labelled(node, **{policy: "violating"})
    await world.client.delete(POLICIES, policy, elsewhere)
    await world.labelled(second)
    await world.labelled(first, **{policy: "violating"})


async def test_label_is_removed_when_readings_stop(world):
    node = await world.add_node("a")
    policy = await world.add_policy("demo", deschedule=["health Equals 2"])
    world.fleet.say(node, health=2)
    await world.start()
    await world.labelled(node, **{policy: "violating"})
    await world.fleet.silence(node)
    await world.labelled(node)
    told = await world.status(policy, lambda status: status["compliance"] == "Unknown")
    assert "no usable reading of health" in told["message"]


async def test_deletions_during_a_watch_outage_are_found(world):
    """410 Gone, as after an API server's restart or a compaction."""
    if world.plane.server is None:
        pytest.skip("a cluster's API server is not ours to restart")
    expire = world.plane.server.expire_history
    node = await world.add_node("a")
    policy = await world.add_policy("demo", deschedule=["health Equals 2"])
    stays = await world.add_policy("stays", deschedule=["health Equals 2"])
    world.fleet.say(node, health=2)
    await world.start()
    await world.labelled(node, **{policy: "violating", stays: "violating"})
    with world.evaluator.paused():
        expire()  # ends its watch
        await world.client.delete(POLICIES, policy, world.namespace)
        expire()  # and now no watch reports it
    await world.labelled(node, **{stays: "violating"})

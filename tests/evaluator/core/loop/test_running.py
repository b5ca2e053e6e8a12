"""When the decision loop evaluates, and how it yields to other tasks."""

import asyncio

import pytest

from evaluator.core.model.names import ObjectMeta
from evaluator.core.model.node import Node
from evaluator.core.signals import Decided, wakes
from tests.evaluator.core.loop.loop_world import KEY, DecisionLoopWorld
from tests.patience import PATIENCE
from wire.codec import Delta


async def decided(world, predicate):
    """Wait until the loop has published decisions that satisfy a predicate."""
    swapped = asyncio.Event()
    world.cluster.signals.connect(wakes(swapped.set, Decided))
    async with asyncio.timeout(PATIENCE):
        while not predicate(world.decider.latest):
            swapped.clear()
            await swapped.wait()


async def test_loop_evaluates_after_a_change(demo, background):
    loop = asyncio.get_running_loop()
    world = DecisionLoopWorld(clock=loop.time)
    background(world.decider.run())
    world.know(demo())
    await decided(world, lambda decisions: KEY in decisions.policies)
    for node in ("node-a", "node-b"):
        world.store.report(node, Delta({"health_metric": 1.0}), loop.time())
    world.decider.touch()
    await decided(world, lambda decisions: len(decisions.policies[KEY].dontschedule) == 2)


async def test_evaluation_yields_to_the_event_loop(parsed, rule, background):
    loop = asyncio.get_running_loop()
    world = DecisionLoopWorld(clock=loop.time, slice_=0.0)
    policies = [parsed(f"p{number}", dontschedule=[rule("cpu Equals 1")]) for number in range(50)]
    world.know(*policies)
    background(world.decider.run())
    turns = 0
    while not world.decider.latest.policies:
        turns += 1
        await asyncio.sleep(0)
    assert turns > len(policies)


async def test_evaluation_yields_to_open_requests(demo, background):
    asking, looked = True, asyncio.Event()

    def asked():
        looked.set()
        return asking

    world = DecisionLoopWorld(clock=asyncio.get_running_loop().time, polite=3600.0)
    world.decider.give_way(asked)
    background(world.decider.run())
    world.know(demo())
    await looked.wait()
    await asyncio.sleep(0)
    assert not world.decider.latest.policies
    asking = False
    await decided(world, lambda decisions: KEY in decisions.policies)


async def test_constant_requests_do_not_starve_evaluation(demo, background):
    world = DecisionLoopWorld(clock=asyncio.get_running_loop().time)
    world.decider.give_way(lambda: True)
    background(world.decider.run())
    world.know(demo())
    await decided(world, lambda decisions: KEY in decisions.policies)


def test_newest_decisions_are_not_replaced_by_an_older_evaluation(world):
    """An evaluation begun earlier must not replace a later result."""
    world.hear(node_a=0.0, node_b=0.0)
    old = world.decider._evaluation()
    next(old)
    world.hear(node_a=1.0)
    world.decider.evaluate()
    newest = world.decider.latest
    for _ in old:
        pass
    assert world.decider.latest is newest


async def test_loop_evaluates_nothing_before_every_kind_is_listed(demo, background):
    """Policies without nodes, or nodes without policies, must not be evaluated."""
    world = DecisionLoopWorld(clock=asyncio.get_running_loop().time)
    background(world.decider.run())
    world.cluster.policies.replace([demo()])
    world.cluster.nodes.replace([Node(ObjectMeta(name="node-a"))])
    for _ in range(20):
        world.decider.touch()
        await asyncio.sleep(0.001)
    assert world.subscriptions.current.metrics == ()
    world.cluster.pods.replace([])
    await decided(world, lambda decisions: KEY in decisions.policies)


async def test_loop_evaluates_when_readings_turn_stale(demo, background):
    """A node without an agent: no report announces that its reading turned stale."""
    now = 1000.0
    world = DecisionLoopWorld(stale_after=0.3, clock=lambda: now)
    background(world.decider.run())
    world.know(demo(), nodes=["node-a"])
    await decided(world, lambda decisions: KEY in decisions.policies)
    world.store.report("node-a", Delta({"health_metric": 1.0}), now)
    world.decider.touch()
    await decided(world, lambda decisions: decisions.policies[KEY].dontschedule)
    now += 0.4  # no event wakes the loop, which sleeps for the 0.3 s until the reading is stale
    await decided(world, lambda decisions: decisions.policies[KEY].missing)
    assert world.decider.latest.policies[KEY].dontschedule == {}


@pytest.mark.parametrize("turns", range(6))
async def test_loop_ends_when_cancelled_during_a_change(demo, turns):
    made = DecisionLoopWorld()
    made.know(demo())
    loop = asyncio.create_task(made.decider.run())
    await asyncio.sleep(0.05)
    made.decider.touch()
    for _ in range(turns):
        await asyncio.sleep(0)
    loop.cancel()
    await asyncio.wait({loop}, timeout=PATIENCE)
    assert loop.cancelled()


async def test_burst_of_changes_causes_few_evaluations(demo, background):
    loop = asyncio.get_running_loop()
    world = DecisionLoopWorld(clock=loop.time)
    background(world.decider.run())
    world.know(demo())
    await decided(world, lambda decisions: KEY in decisions.policies)
    before = world.value("plimsoll_decide_duration_seconds_count")
    for _ in range(1000):
        world.decider.touch()
        await asyncio.sleep(0)
    world.cluster.policies.replace([])
    await decided(world, lambda decisions: not decisions.policies)
    assert world.value("plimsoll_decide_duration_seconds_count") - before < 200


async def test_loop_evaluates_when_for_and_clear_after_expire(parsed, rule, background):
    loop = asyncio.get_running_loop()
    world = DecisionLoopWorld(clock=loop.time)
    background(world.decider.run())
    patient = {**rule("health_metric Equals 1"), "for": "200ms", "clearAfter": "200ms"}
    world.know(parsed("demo-policy", dontschedule=[patient]), nodes=["node-a"])
    await decided(world, lambda decisions: KEY in decisions.policies)
    for value, there in ((1.0, True), (0.0, False)):
        at = loop.time()
        world.store.report("node-a", Delta({"health_metric": value}), at)
        world.decider.touch()
        await decided(world, lambda d, there=there: bool(d.policies[KEY].dontschedule) is there)
        assert loop.time() >= at + 0.2

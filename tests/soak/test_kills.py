"""kill -9 at random moments under load: no label flaps, no answer is wrong, and the recovery time.

`PLIMSOLL_SEED` sets the seed; the recovery times are properties in the test report.
"""

import asyncio
import json
import os
import random
import statistics
import sys

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.features("pages")]

ELECTED = (
    "--leaderElect",
    "--leaseNamespace=default",
    "--leaseDuration=2s",
    "--renewDeadline=1500ms",
    "--retryPeriod=300ms",
)


@pytest.fixture
def seed():
    return int(os.environ.get("PLIMSOLL_SEED", "20"))


@pytest.mark.parametrize("replicas", ["one", "two"])
async def test_agent_and_evaluator_recover_from_kills_at_any_moment(
    start_world, soak, seed, replicas, record_property
):
    kills, rng = (100 if soak else 3), random.Random(seed)
    world = await start_world(*([()] if replicas == "one" else [ELECTED, ELECTED]))
    moods = asyncio.create_task(change_moods(world, rng))
    for _ in range(kills):
        await asyncio.sleep(rng.uniform(0, 2.5))
        victims = [rng.choice(world.evaluators)]
        if rng.random() < 0.1:
            victims = world.evaluators
        for evaluator in victims:
            await evaluator.kill()
        await asyncio.sleep(rng.choice((0.0, 0.0, rng.uniform(0, 2))))
        for evaluator in victims:
            await evaluator.start()
        if rng.random() < 0.5:  # otherwise the next kill may come before it has begun to answer
            for evaluator in victims:
                await evaluator.recovered()
        assert_right(world, seed)
    moods.cancel()
    await world.agrees()
    assert_right(world, seed)
    told = report(world, kills)
    for name, value in told.items():
        record_property(name, value)
    sys.stdout.write(json.dumps({"replicas": replicas, "seed": seed, **told}) + "\n")


async def change_moods(world, rng):
    """Change the values of some nodes at a rate that every component can follow."""
    while True:
        await asyncio.sleep(rng.uniform(1, 6))
        reading = world.readings[rng.choice(world.moody)]
        reading.becomes(1.0 - reading.value)


def assert_right(world, seed):
    for evaluator in world.evaluators:
        assert not evaluator.wrong, f"PLIMSOLL_SEED={seed}: {evaluator.name}: {evaluator.wrong[:3]}"
    for node, reading in world.readings.items():
        flaps = world.labels.flaps(node, reading)
        assert not flaps, f"PLIMSOLL_SEED={seed}: {node}: {flaps}, {reading.history}"


def report(world, kills):
    """Recorded only: the test does not require speed."""
    seconds = sorted(s for evaluator in world.evaluators for s in evaluator.recoveries)
    return {
        "kills": kills,
        "answers": sum(evaluator.answers for evaluator in world.evaluators),
        "label_changes": sum(len(seen) - 1 for seen in world.labels.history.values()),
        "recoveries": len(seconds),
        "recovery_p50_s": round(statistics.median(seconds), 2),
        "recovery_max_s": round(seconds[-1], 2),
    }

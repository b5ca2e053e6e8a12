"""Evictions while API errors, budgets, leader changes, rivals and edits of policies are drawn at random.

`PLIMSOLL_SEED` sets the seed, `PLIMSOLL_SOAK_SECONDS` the length: by default an hour with --soak.
"""

import os
import sys
import time

import pytest

from plimsoll import logs
from tests.eventually import eventually
from tests.soak.evictions.chaos import Chaos
from tests.soak.evictions.world import World

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.features("evictions", "node_actions", "stop", "gangs", "extender", "labels"),
]

ROUND = 60.0
"""Seconds of faults before everything is taken back, and what is due must happen."""
FURTHER = 5
"""Rounds after these seconds, if none of the drawn ones left anything to evict."""
CALM = 600.0
"""Seconds after which evictions that are due, and did not happen, are missing: longer than every back-off and lease."""


@pytest.fixture
def seed():
    return int(os.environ.get("PLIMSOLL_SEED", "20"))


@pytest.fixture
def seconds(soak):
    return float(os.environ.get("PLIMSOLL_SOAK_SECONDS", "3600" if soak else "15"))


async def test_evictions_stay_within_their_limits_and_happen(tmp_path, seed, seconds, capfd):
    logs.setup("error")  # the sandbox's own lines
    begin = time.monotonic()

    def progress(text):
        with capfd.disabled():
            sys.stdout.write(f"\n{time.monotonic() - begin:6.0f} s: {text}")
            sys.stdout.flush()

    async with World(tmp_path, seed) as world:
        begin = time.monotonic()  # a slow start takes nothing from the faults
        chaos = Chaos(world)
        while (left := seconds - (time.monotonic() - begin)) > 0:
            await one_round(world, chaos, min(ROUND, left), progress, seed)
        for _ in range(FURTHER):
            if not sum(world.truth.evicted.values()):
                await one_round(world, chaos, min(ROUND, seconds), progress, seed)
        assert sum(world.truth.evicted.values()), "pods were evicted"
        progress(f"faults {world.doors.injected}, events {chaos.counts}\n")
    for log in tmp_path.rglob("*.log"):
        assert "Traceback" not in log.read_text(), log


async def one_round(world, chaos, seconds, progress, seed):
    again = f"PLIMSOLL_SEED={seed}"
    await world.populate()
    for replica in world.replicas:
        await replica.evaluator.ready()
    bare = world.bare()
    await chaos.rage(seconds)
    await chaos.settle()
    progress(f"round {world.number}: calm, {sum(world.truth.evicted.values())} pods evicted")
    try:
        await eventually(lambda: is_done(world, again), CALM, every=1.0)
    except TimeoutError:
        ends = "".join(replica.evaluator.log() for replica in world.replicas)
        due, unsettled = world.truth.due(), world.truth.unsettled()
        raise AssertionError(f"{again}: not evicted: {due}; starting {unsettled}{ends}") from None
    assert world.bare() == bare, again
    for replica in world.replicas:
        await no_internal_error(replica, again)
    progress(f"round {world.number}: {dict(world.truth.evicted)}")
    await world.depopulate()


def is_done(world, again):
    assert not world.truth.wrong, f"{again}: {world.truth.wrong}"
    died = [replica.evaluator.log() for replica in world.replicas if replica.died]
    assert not died, f"{again}: {died}"
    return not (world.truth.due() or world.truth.unsettled())


async def no_internal_error(replica, again):
    async def scraped():
        return (await replica.evaluator.get("/metrics"))[1]

    text = await eventually(scraped)
    lines = [
        line for line in text.splitlines() if line.startswith("plimsoll_internal_errors_total")
    ]
    bad = [line for line in lines if not line.endswith(" 0.0")]
    assert not bad, f"{again}: {replica.name}: {bad}{replica.evaluator.log()}"

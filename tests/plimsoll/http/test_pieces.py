"""Work in the background of other requests."""

import asyncio

import pytest

from plimsoll.http.pieces import Paced, unhurried
from plimsoll.pace import Pace
from tests.patience import PATIENCE


async def test_result_and_cpu_time_are_those_of_the_work():
    pace = Paced()

    async def work():
        counted = sum(range(200_000))
        await asyncio.sleep(0)
        return counted

    assert await pace.of(work()) == sum(range(200_000))
    assert pace.seconds > 0


async def test_others_run_while_the_work_rests():
    """With endless pauses, the second step does not begin; a cancellation ends the work in an orderly way."""
    seen = []

    def steps():
        for step in range(2):
            seen.append(step)
            yield sum(range(200_000))

    async def work():
        try:
            await unhurried(steps())
        finally:
            seen.append("ended")

    async def other():
        await unhurried(steps())

    task = asyncio.create_task(Paced(Pace(slice=0.0, rest=1e9)).of(work()))
    for _ in range(100):
        await asyncio.sleep(0)
    assert seen == [0]
    await other()  # the pace is that of the work only
    assert seen == [0, 0, 1]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(PATIENCE):
            await task
    assert seen == [0, 0, 1, "ended"]


async def test_failure_of_the_work_is_its_callers():
    async def work():
        await asyncio.sleep(0)
        raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        await Paced().of(work())

"""Work in steps leaves the event loop to others."""

import asyncio

import pytest

from plimsoll.pace import Pace, sliced
from plimsoll.steps import finished


def counting(number, seen):
    for step in range(number):
        seen.append(step)
        sum(range(1000))
        yield
    return number


def test_all_steps_run_at_once_return_the_result():
    assert finished(counting(3, [])) == 3


async def test_others_run_between_slices():
    seen = []

    async def other():
        while True:
            seen.append("other")
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    result, seconds = await sliced(counting(3, seen), Pace(slice=0.0, rest=0))
    task.cancel()
    assert result == 3
    assert seconds > 0
    assert seen == [0, "other", 1, "other", 2, "other"]


async def test_steps_of_one_slice_run_together():
    seen = []
    asyncio.get_running_loop().call_soon(seen.append, "other")
    await sliced(counting(3, seen), Pace(slice=1e9))
    assert seen == [0, 1, 2]


async def test_work_waits_after_each_rest():
    seen = []

    async def wait():
        seen.append("waited")

    await sliced(counting(2, seen), Pace(slice=0.0, rest=0, wait=wait))
    assert seen == [0, "waited", 1, "waited"]


async def test_failure_of_a_step_is_its_callers():
    def failing():
        yield
        raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        await sliced(failing())

"""A loop's wake-up signal: kept until it is waited for, counted once, with a deadline."""

import asyncio

import pytest

from plimsoll.wakeup import WakeUp


class Waits:
    """A waiting task, on an event loop stepped by hand."""

    def __init__(self, wakeup, timeout=None):
        self.task = asyncio.ensure_future(wakeup.wait(timeout))

    async def ended(self):
        for _ in range(5):
            await asyncio.sleep(0)
        return self.task.done()


async def test_wait_ends_at_the_signal():
    wakeup = WakeUp()
    waits = Waits(wakeup)
    assert not await waits.ended()
    wakeup.set()
    assert await waits.ended()


async def test_signals_before_the_wait_count_once():
    wakeup = WakeUp()
    wakeup.set()
    wakeup.set()
    assert await Waits(wakeup).ended()
    second = Waits(wakeup)
    assert not await second.ended()
    second.task.cancel()


async def test_cleared_signal_ends_no_wait():
    wakeup = WakeUp()
    wakeup.set()
    wakeup.clear()
    waits = Waits(wakeup)
    assert not await waits.ended()
    waits.task.cancel()


async def test_signal_during_work_ends_the_next_wait():
    wakeup = WakeUp()
    wakeup.set()
    await wakeup.wait()
    wakeup.set()
    assert await Waits(wakeup).ended()


@pytest.mark.parametrize("timeout", [0.0, 0.001])
async def test_deadline_ends_the_wait_without_a_signal(timeout):
    await WakeUp().wait(timeout)


async def test_cancellation_passes_through():
    waits = Waits(WakeUp(), 1000.0)
    assert not await waits.ended()
    waits.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits.task

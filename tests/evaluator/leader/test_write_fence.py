"""The right to write: asked for at every write, over by the clock, and given back in order."""

import asyncio

import pytest

from evaluator.leader.write_fence import NotLeaderError, WriteFence
from evaluator.leader.write_fence import clock as boot_clock
from tests.patience import PATIENCE


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def mandate(clock):
    return WriteFence(clock=clock)


async def writes(mandate, begun=None, end=None):
    async with mandate.write():
        if begun:
            begun.set()
        if end:
            await end.wait()


async def test_nobody_has_it_from_the_start(mandate):
    assert not mandate.allowed()
    with pytest.raises(NotLeaderError):
        await writes(mandate)


async def test_it_is_over_when_its_time_is_without_a_word(mandate, clock):
    mandate.extend(1008.0)
    await writes(mandate)
    clock.now = 1007.9
    assert mandate.allowed()
    clock.now = 1008.0
    assert not mandate.allowed()
    with pytest.raises(NotLeaderError):
        await writes(mandate)


async def test_without_a_time_it_lasts(mandate, clock):
    mandate.extend()
    clock.now += 1e9
    await writes(mandate)


async def test_listeners_hear_when_it_is_had_again_and_not_of_each_renewal(mandate, clock):
    heard = []
    mandate.listeners.append(lambda: heard.append(clock.now))
    for clock.now in (1000.0, 1002.0, 1004.0):
        mandate.extend(clock.now + 8)
    mandate.end()
    for clock.now in (1010.0, 1012.0, 1030.0):
        mandate.extend(clock.now + 8)
    assert heard == [1000.0, 1010.0, 1030.0]


async def test_a_write_under_way_is_given_up_when_it_ends(mandate):
    mandate.extend()
    begun = asyncio.Event()
    write = asyncio.create_task(writes(mandate, begun, asyncio.Event()))
    await begun.wait()
    mandate.end()
    with pytest.raises(NotLeaderError):
        await write


async def test_a_write_under_way_goes_on_while_it_is_renewed(mandate, clock):
    mandate.extend(clock.now + 1)
    begun, end = asyncio.Event(), asyncio.Event()
    write = asyncio.create_task(writes(mandate, begun, end))
    await begun.wait()
    mandate.extend(clock.now + 1000)
    await asyncio.sleep(1.1)  # past its first end
    end.set()
    await write


async def test_a_write_under_way_is_given_up_when_nobody_renews_it():
    mandate = WriteFence()
    mandate.extend(boot_clock() + 0.01)
    with pytest.raises(NotLeaderError):
        await writes(mandate, end=asyncio.Event())


async def test_a_write_under_way_is_cancelled_after_a_suspend(mandate, clock):
    """The loop's clock stands still while the machine is suspended; the lease goes on."""
    mandate.extend(clock.now + 1000)
    begun = asyncio.Event()
    write = asyncio.create_task(writes(mandate, begun, asyncio.Event()))
    await begun.wait()
    clock.now += 2000
    async with asyncio.timeout(60):
        with pytest.raises(NotLeaderError):
            await write


async def test_finishing_lets_end_what_is_under_way_and_nothing_begin(mandate):
    mandate.extend()
    begun, end = asyncio.Event(), asyncio.Event()
    write = asyncio.create_task(writes(mandate, begun, end))
    await begun.wait()
    finishing = asyncio.create_task(mandate.finish(30))
    await asyncio.sleep(0)
    assert not mandate.allowed()
    with pytest.raises(NotLeaderError):
        await writes(mandate)
    assert not finishing.done()
    end.set()
    await write
    await finishing
    mandate.extend()
    assert not mandate.allowed(), "for good"


async def test_finishing_is_not_held_up_by_what_hangs(mandate):
    mandate.extend()
    begun = asyncio.Event()
    write = asyncio.create_task(writes(mandate, begun, asyncio.Event()))
    await begun.wait()
    await mandate.finish(0.01)
    with pytest.raises(NotLeaderError):
        await write


async def test_finishing_with_nothing_under_way_takes_no_time(mandate):
    mandate.extend()
    async with asyncio.timeout(PATIENCE):
        await mandate.finish(1e6)


async def test_an_error_of_the_write_itself_goes_through(mandate):
    mandate.extend()
    with pytest.raises(KeyError):
        async with mandate.write():
            raise KeyError
    await mandate.finish(1e6)

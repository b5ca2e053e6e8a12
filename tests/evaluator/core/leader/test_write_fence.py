"""The write fence: checked at every write, closed by deadline, and released in order."""

import asyncio

import pytest

from evaluator.core.leader.write_fence import NotLeaderError, WriteFence
from evaluator.core.leader.write_fence import clock as boot_clock
from tests.clock import Clock
from tests.patience import PATIENCE


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def fence(clock):
    return WriteFence(clock=clock)


async def writes(fence, begun=None, end=None):
    async with fence.write():
        if begun:
            begun.set()
        if end:
            await end.wait()


async def test_fence_is_closed_at_the_start(fence):
    assert not fence.is_leader()
    with pytest.raises(NotLeaderError):
        await writes(fence)


async def test_fence_closes_by_itself_at_the_deadline(fence, clock):
    fence.extend(1008.0)
    await writes(fence)
    clock.now = 1007.9
    assert fence.is_leader()
    clock.now = 1008.0
    assert not fence.is_leader()
    with pytest.raises(NotLeaderError):
        await writes(fence)


async def test_fence_without_a_deadline_stays_open(fence, clock):
    fence.extend()
    clock.now += 1e9
    await writes(fence)


async def test_gained_leadership_is_published_and_no_renewal(clock):
    heard = []
    fence = WriteFence(publish=lambda _signal: heard.append(clock.now), clock=clock)
    for clock.now in (1000.0, 1002.0, 1004.0):
        fence.extend(clock.now + 8)
    fence.end()
    for clock.now in (1010.0, 1012.0, 1030.0):
        fence.extend(clock.now + 8)
    assert heard == [1000.0, 1010.0, 1030.0]


async def test_write_in_flight_is_cancelled_when_leadership_ends(fence):
    fence.extend()
    begun = asyncio.Event()
    write = asyncio.create_task(writes(fence, begun, asyncio.Event()))
    await begun.wait()
    fence.end()
    with pytest.raises(NotLeaderError):
        await write


async def test_write_in_flight_continues_while_leadership_is_renewed(fence, clock):
    fence.extend(clock.now + 1)
    begun, end = asyncio.Event(), asyncio.Event()
    write = asyncio.create_task(writes(fence, begun, end))
    await begun.wait()
    fence.extend(clock.now + 1000)
    await asyncio.sleep(1.1)  # past its first deadline
    end.set()
    await write


async def test_write_in_flight_is_cancelled_at_the_deadline():
    fence = WriteFence()
    fence.extend(boot_clock() + 0.01)
    with pytest.raises(NotLeaderError):
        await writes(fence, end=asyncio.Event())


async def test_write_in_flight_is_cancelled_after_a_suspend(fence, clock):
    """The loop's clock stops while the machine is suspended; the lease does not."""
    fence.extend(clock.now + 1000)
    begun = asyncio.Event()
    write = asyncio.create_task(writes(fence, begun, asyncio.Event()))
    await begun.wait()
    clock.now += 2000
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(NotLeaderError):
            await write


async def test_finish_lets_writes_in_flight_end_and_rejects_new_ones(fence):
    fence.extend()
    begun, end = asyncio.Event(), asyncio.Event()
    write = asyncio.create_task(writes(fence, begun, end))
    await begun.wait()
    finishing = asyncio.create_task(fence.finish(30))
    await asyncio.sleep(0)
    assert not fence.is_leader()
    with pytest.raises(NotLeaderError):
        await writes(fence)
    assert not finishing.done()
    end.set()
    await write
    await finishing
    fence.extend()
    assert not fence.is_leader(), "permanently"


async def test_finish_is_not_delayed_by_a_hanging_write(fence):
    fence.extend()
    begun = asyncio.Event()
    write = asyncio.create_task(writes(fence, begun, asyncio.Event()))
    await begun.wait()
    await fence.finish(0.01)
    with pytest.raises(NotLeaderError):
        await write


async def test_finish_without_writes_returns_at_once(fence):
    fence.extend()
    async with asyncio.timeout(PATIENCE):
        await fence.finish(1e6)


async def test_error_of_the_write_itself_is_raised(fence):
    fence.extend()
    with pytest.raises(KeyError):
        async with fence.write():
            raise KeyError
    await fence.finish(1e6)

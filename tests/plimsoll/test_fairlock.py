"""The fair lock: one holder, a bounded queue, immediate rejection beyond it."""

import asyncio

import pytest

from plimsoll.fairlock import FairLock, TooManyWaitError


class Work:
    """Work under the lock, until released."""

    def __init__(self, turns):
        self._turns = turns
        self.begun = []
        self.may_end = asyncio.Event()

    async def do(self, name):
        async with self._turns.hold():
            self.begun.append(name)
            await self.may_end.wait()


@pytest.fixture
async def work():
    """A lock with two waiters at most."""
    return Work(FairLock(2))


async def begin(work, *names):
    tasks = [asyncio.create_task(work.do(name)) for name in names]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_lock_is_acquired_in_order_of_arrival(work):
    tasks = await begin(work, "a", "b", "c")
    assert work.begun == ["a"]
    work.may_end.set()
    await asyncio.gather(*tasks)
    assert work.begun == ["a", "b", "c"]


async def test_waiter_beyond_the_limit_is_rejected_at_once(work):
    tasks = await begin(work, "a", "b", "c")
    with pytest.raises(TooManyWaitError):
        await work.do("d")
    work.may_end.set()
    await asyncio.gather(*tasks)
    await work.do("d")
    assert work.begun == ["a", "b", "c", "d"]


async def test_cancelled_waiter_frees_its_place(work):
    tasks = await begin(work, "a", "b", "c")
    for task in tasks[:2]:
        task.cancel()
    tasks += await begin(work, "d", "e")
    with pytest.raises(TooManyWaitError):
        await work.do("f")
    work.may_end.set()
    await asyncio.gather(*tasks[2:])
    assert work.begun == ["a", "c", "d", "e"]

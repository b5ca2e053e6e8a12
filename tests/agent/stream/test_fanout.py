"""One stream per replica behind the evaluator's DNS name, through DNS changes and failures."""

import asyncio
import contextlib
import socket

import pytest

from agent.stream.fanout import StreamFanout, resolved
from plimsoll.http.addresses import Address
from tests.patience import PATIENCE

NAME = Address("evaluator", 9091)
A, B = Address("10.0.0.1", 9091), Address("10.0.0.2", 9091)


class World:
    """A fake name service, and fake streams."""

    def __init__(self):
        self.answer = frozenset()
        self.running = {}
        self.states = []
        self.looked = asyncio.Condition()
        self.looks = 0

    async def resolve(self, address):
        assert address == NAME
        async with self.looked:
            self.looks += 1
            self.looked.notify_all()
        if isinstance(self.answer, OSError):
            raise self.answer
        return self.answer

    def open(self, address, on_state):
        world = self

        class Stream:
            async def run(self):
                world.running[address] = on_state
                try:
                    await asyncio.Event().wait()
                finally:
                    del world.running[address]

        return Stream()

    async def says(self, answer):
        """Set the name service's result and wait until streams follow."""
        self.answer = answer
        async with asyncio.timeout(PATIENCE), self.looked:
            seen = self.looks + 2
            await self.looked.wait_for(lambda: self.looks >= seen)
        return set(self.running)


@pytest.fixture
async def world():
    made = World()
    broadcaster = StreamFanout(
        NAME, made.open, on_state=made.states.append, resolve=made.resolve, look=0.001
    )
    task = asyncio.create_task(broadcaster.run())
    yield made
    assert not task.done(), task
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert not made.running, "no stream outlives it"


async def test_streams_follow_the_resolved_replicas(world):
    assert await world.says(frozenset({A})) == {A}
    assert await world.says(frozenset({A, B})) == {A, B}
    assert await world.says(frozenset({B})) == {B}
    assert await world.says(frozenset()) == set()


async def test_failed_resolution_ends_no_stream(world):
    assert await world.says(OSError(-2, "Name or service not known")) == set()
    assert await world.says(frozenset({A})) == {A}
    before = world.running[A]
    assert await world.says(OSError(-3, "Temporary failure")) == {A}
    assert world.running[A] is before
    assert await world.says(frozenset({A, B})) == {A, B}


async def test_stream_is_up_once_all_replicas_are_connected(world):
    await world.says(frozenset({A, B}))
    assert world.states[-1] is False
    world.running[A](True)
    assert world.states[-1] is False
    world.running[B](True)
    assert world.states[-1] is True
    late = world.running[A]
    await world.says(frozenset({B}))
    late(False)
    assert world.states[-1] is True
    world.running[B](False)
    assert world.states[-1] is False


async def test_stream_errors_are_not_hidden():
    class Broken:
        async def run(self):
            raise ZeroDivisionError

    async def resolve(_address):
        return frozenset({A})

    broadcaster = StreamFanout(NAME, lambda *_: Broken(), resolve=resolve)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(broadcaster.run(), PATIENCE)


async def test_ip_address_resolves_to_itself():
    assert await resolved(Address("127.0.0.1", 1)) == {Address("127.0.0.1", 1)}
    with contextlib.suppress(socket.gaierror):  # a machine without IPv6
        assert await resolved(Address("::1", 1)) == {Address("::1", 1)}


async def test_one_address_family_of_a_name_is_used():
    """Both lead to the same evaluator, where each stream would replace the other."""
    found = await resolved(Address("localhost", 1))
    assert len({":" in address.host for address in found}) == 1

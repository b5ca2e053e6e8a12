"""Cyclic garbage of ended requests does not accumulate, however rare Python's own full collections are."""

import gc
import weakref

import pytest

from plimsoll.process.garbage import GarbageCollection

EVERY = 1_000


class Cycle:
    """Refers to itself."""

    def __init__(self):
        self.me = self


@pytest.fixture(autouse=True)
def uncollected():
    """Only explicit collections; objects of earlier tests are not visited."""
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


def ended(collection, times):
    for _ in range(times):
        collection.ended()


def test_garbage_is_collected_after_a_thousand_ended_requests():
    collection = GarbageCollection()
    found = weakref.ref(Cycle())
    ended(collection, EVERY - 1)
    assert found() is not None
    ended(collection, 1)
    assert found() is None


def test_survivors_of_a_slow_collection_are_visited_again_only_when_memory_has_grown():
    memory, ticks = [100], iter(range(100))
    collection = GarbageCollection(resident=lambda: memory[0], clock=lambda: next(ticks))
    survivor = Cycle()
    found = weakref.ref(survivor)
    ended(collection, EVERY)  # takes a second of this clock
    del survivor
    ended(collection, EVERY)
    assert found() is not None
    memory[0] = 130
    ended(collection, EVERY)
    assert found() is None


def test_survivors_of_a_quick_collection_are_visited_by_the_next():
    collection = GarbageCollection(clock=lambda: 0.0)
    survivor = Cycle()
    found = weakref.ref(survivor)
    ended(collection, EVERY)
    del survivor
    ended(collection, 10 * EVERY)
    assert found() is None

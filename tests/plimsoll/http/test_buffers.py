"""The memory of a large body is reused for the next one, unless it is in use, does not fit, or some time has passed."""

import asyncio
import weakref

import pytest

from plimsoll.http.buffers import LARGE, BodyBuffers

SIZE = 4 * LARGE


def pages(buffer):
    """The memory behind a buffer, without keeping it."""
    return weakref.ref(buffer.obj)


@pytest.mark.parametrize(
    ("size", "reused"),
    [(SIZE, True), (SIZE - 1, True), (SIZE // 2, True), (SIZE // 2 - 1, False), (SIZE + 1, False)],
)
async def test_memory_is_reused_for_bodies_of_similar_size(size, reused):
    buffers = BodyBuffers(10 * SIZE)
    before = pages(buffers.allocate(SIZE))
    buffer = buffers.allocate(size)
    assert len(buffer) == size
    assert (buffer.obj is before()) is reused
    assert reused or before() is None


async def test_memory_in_use_is_not_reused():
    buffers = BodyBuffers(10 * SIZE)
    held = buffers.allocate(SIZE)[10:20]
    assert buffers.allocate(SIZE).obj is not held.obj


@pytest.mark.parametrize("size", [LARGE - 1, 2 * SIZE])
async def test_small_and_very_large_memory_is_not_kept(size):
    buffers = BodyBuffers(SIZE)
    memory = pages(buffers.allocate(size))
    assert memory() is None


async def test_memory_is_freed_after_a_while():
    freed = asyncio.Event()
    buffers = BodyBuffers(SIZE, kept=0.01)
    weakref.finalize(buffers.allocate(SIZE).obj, freed.set)
    assert not freed.is_set()
    await freed.wait()

"""Long work for a response in pieces, yielding to the event loop between them, so that other requests are answered."""

import asyncio
import time
from collections.abc import Generator, Iterable, Iterator
from typing import TypeVar

_SLICE = 0.001
"""Seconds of work on a body before yielding to other requests."""

T = TypeVar("T")


async def unhurried(pieces: Iterable[T]) -> list[T]:
    """Return the pieces of a body, yielding to the event loop before, between and after them.

    After them: what they were made from is often freed next.
    """
    await asyncio.sleep(0)
    made, begun = [], time.perf_counter()
    for piece in pieces:
        made.append(piece)
        if (worked := time.perf_counter() - begun) > _SLICE:
            await asyncio.sleep(worked)
            begun = time.perf_counter()
    await asyncio.sleep(0)
    return made


async def stepwise(steps: Generator[None, None, T]) -> T:
    """Return the result of a generator, yielding to the event loop between its steps."""
    results: list[T] = []

    def run() -> Iterator[None]:
        results.append((yield from steps))

    await unhurried(run())
    return results[0]

"""Work on a page in slices, so that kube-scheduler's requests are answered in between."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from evaluator.model.steps import Steps

_SLICE = 0.001
"""Seconds of work on a page before yielding to requests of kube-scheduler."""
WAITING = 7
"""Clients that may wait while a page is built."""

T = TypeVar("T")


async def unhurried(pieces: Iterable[T]) -> list[T]:
    """The pieces of a page, yielding to the event loop before, between and after them.

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


async def stepwise(steps: Steps[T]) -> T:
    """The result of a generator, yielding to the event loop between its steps."""
    done: list[T] = []

    def result() -> Iterator[None]:
        done.append((yield from steps))

    await unhurried(result())
    return done[0]

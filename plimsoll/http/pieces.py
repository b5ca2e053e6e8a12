"""Bodies made in pieces, yielding to the event loop between them."""

import asyncio
import time
from collections.abc import Iterable
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

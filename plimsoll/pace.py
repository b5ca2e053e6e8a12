"""Runs long work in slices, so that other work of the event loop runs between them."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from plimsoll.steps import Steps

T = TypeVar("T")


class Pace(NamedTuple):
    """How work in steps shares the event loop with other work."""

    slice: float = 0.001
    """Seconds of CPU time after which it yields to the event loop."""
    rest: float = 1.0
    """How many times as long it then rests."""
    wait: Callable[[], Awaitable[None]] | None = None
    """Called after each rest, to wait while something else is more important."""


class Sliced(NamedTuple, Generic[T]):
    """What the steps returned, and the CPU time that they took in seconds."""

    result: T
    seconds: float


async def sliced(steps: Steps[T], pace: Pace = Pace()) -> Sliced[T]:  # noqa: B008 (immutable)
    """Run all steps, and yield to the event loop between slices of them.

    In CPU time, because on a busy machine wall time would lengthen the rests.
    """
    worked, wall, begun = 0.0, time.perf_counter(), time.thread_time()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return Sliced(done.value, worked + time.thread_time() - begun)
        # CPU time takes ten times as long to read, and is never more.
        if time.perf_counter() - wall < pace.slice:
            continue
        if (spent := time.thread_time() - begun) >= pace.slice:
            worked += spent
            await asyncio.sleep(pace.rest * spent)
            if pace.wait is not None:
                await pace.wait()
            wall, begun = time.perf_counter(), time.thread_time()

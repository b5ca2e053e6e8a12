"""Long work for a response in pieces, yielding to the event loop between them, so that other requests are answered."""

import asyncio
import functools
import time
import types
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from typing import Any, TypeVar

_SLICE = 0.001
"""Seconds of work on a body before yielding to other requests."""
_STEP = 0.0002
"""Seconds of work after which `Paced` rests."""

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


class Paced:
    """Runs work in the background of other requests: each step is followed by a pause of `rest` times its CPU time."""

    def __init__(self, rest: float = 0.0) -> None:
        self.seconds = 0.0
        """CPU time so far."""
        self._rest = rest

    @types.coroutine
    def of(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Run a coroutine; return its result."""
        step: Callable[[], Any] = functools.partial(work.send, None)
        while True:
            begun = time.thread_time()
            try:
                waited = step()
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                spent = time.thread_time() - begun
                self.seconds += spent
            try:
                step = functools.partial(work.send, (yield waited))
                if self._rest and spent > _STEP:
                    yield from asyncio.sleep(self._rest * spent).__await__()
            except BaseException as error:  # noqa: BLE001 (the work gets it, such as a cancellation)
                step = functools.partial(work.throw, error)

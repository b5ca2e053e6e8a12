"""Long work for a response in pieces, yielding to the event loop between them, so that other requests are answered."""

import asyncio
import functools
import time
import types
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextvars import ContextVar
from typing import Any, TypeVar

from plimsoll.pace import Pace, sliced
from plimsoll.steps import Steps

_USUAL = Pace()
_PACE: ContextVar[Pace] = ContextVar("pace", default=_USUAL)

T = TypeVar("T")


async def unhurried(pieces: Iterable[T]) -> list[T]:
    """Return the pieces of a body, yielding to the event loop before, between and after them."""
    return await stepwise(_collected(pieces))


async def stepwise(steps: Steps[T]) -> T:
    """Return the result of steps, yielding to the event loop before, between and after them.

    After them: what it was made from is often freed next.
    """
    await asyncio.sleep(0)
    result, _ = await sliced(steps, _PACE.get())
    await asyncio.sleep(0)
    return result


def _collected(pieces: Iterable[T]) -> Steps[list[T]]:
    made: list[T] = []
    for piece in pieces:
        made.append(piece)
        yield
    return made


class Paced:
    """Runs work at a pace, and measures its CPU time."""

    def __init__(self, pace: Pace = _USUAL) -> None:
        self.seconds = 0.0
        """CPU time so far."""
        self._pace = pace

    async def of(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine; return its result."""
        return await self._steps_of(work)

    @types.coroutine
    def _steps_of(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        step: Callable[[], Any] = functools.partial(work.send, None)
        before = _PACE.set(self._pace)
        try:
            while True:
                begun = time.thread_time()
                try:
                    waited = step()
                except StopIteration as end:
                    result: T = end.value
                    return result
                finally:
                    self.seconds += time.thread_time() - begun
                try:
                    step = functools.partial(work.send, (yield waited))
                except BaseException as error:  # noqa: BLE001 (the work gets it, such as a cancellation)
                    step = functools.partial(work.throw, error)
        finally:
            _PACE.reset(before)

"""One call for concurrent identical questions, and a bounded cache of their answers."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SharedCalls(Generic[T]):
    """Runs at most one call per key; callers that come meanwhile share its result."""

    def __init__(self) -> None:
        self._tasks: dict[bytes, asyncio.Task[T]] = {}

    async def run(self, key: bytes, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the call for this key. It goes on if this caller is cancelled. Raises what it raises."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(call())
            task.add_done_callback(lambda done: self._done(key, done))
        return await asyncio.shield(task)

    def _done(self, key: bytes, task: asyncio.Task[T]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # seen, even if all callers were cancelled


class BoundedCache(Generic[T]):
    """Results by key; beyond `most`, the oldest is dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._results: OrderedDict[bytes, T] = OrderedDict()

    def get(self, key: bytes) -> T | None:
        """Return a result; None if there is none."""
        return self._results.get(key)

    def put(self, key: bytes, result: T) -> None:
        """Store a result as the newest."""
        self._results[key] = result
        self._results.move_to_end(key)
        if len(self._results) > self._most:
            self._results.popitem(last=False)

    def drop(self, key: bytes) -> None:
        """Remove a result if there is one."""
        self._results.pop(key, None)

    def __len__(self) -> int:
        return len(self._results)

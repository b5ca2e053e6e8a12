"""A FIFO lock with a bounded queue.

Each waiter holds a connection. If waiters held all connections of a port, a kubelet's probe would be refused and the
process restarted.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class TooManyWaitError(Exception):
    """The queue is full."""


class FairLock:
    """A FIFO lock. `waiting`: maximum number of waiters."""

    def __init__(self, waiting: int) -> None:
        self._free = waiting + 1
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold the lock within the block. Raises TooManyWaitError at once if the queue is full."""
        if not self._free:
            raise TooManyWaitError
        self._free -= 1
        try:
            async with self._lock:
                yield
        finally:
            self._free += 1

"""Work that is done for one client at a time, while only so many others wait.

Each that waits holds a connection; if all of a port's were held so, a kubelet's probe would be refused, and the process ended.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class TooManyWaitError(Exception):
    """There is no turn to be had now."""


class FairLock:
    """One after the other, in the order in which they came. `waiting`: how many may, besides the one whose turn it is."""

    def __init__(self, waiting: int) -> None:
        self._room = waiting + 1
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, and have it until the block ends. Raises TooManyWaitError, at once."""
        if not self._room:
            raise TooManyWaitError
        self._room -= 1
        try:
            async with self._lock:
                yield
        finally:
            self._room += 1

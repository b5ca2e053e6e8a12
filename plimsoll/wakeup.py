"""Waiting for work: until another task signals it, or until a deadline."""

import asyncio
import contextlib


class WakeUp:
    """A wake-up signal for one loop. Signals before or between waits are kept; several count as one."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """End the current wait, or the next one."""
        self._event.set()

    def is_set(self) -> bool:
        """Return whether a signal is kept for the next wait."""
        return self._event.is_set()

    def clear(self) -> None:
        """Drop a signal, for a loop that is about to look at everything."""
        self._event.clear()

    async def wait(self, timeout: float | None = None) -> None:
        """Return when signalled, or after `timeout` seconds if given, and drop the signal."""
        with contextlib.suppress(TimeoutError):
            # Not wait_for(): before Python 3.12 it swallows a cancellation that arrives together with the event.
            async with asyncio.timeout(timeout):
                await self._event.wait()
        self.clear()

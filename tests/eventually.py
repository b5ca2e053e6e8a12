"""Waits for other processes, whose changes cause no event here."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.patience import PATIENCE


async def eventually(
    answer: Callable[[], Any], timeout: float = PATIENCE, *, every: float = 0.02
) -> Any:
    """Call a function, which may be asynchronous, until it returns a true value, and return that. Raises TimeoutError."""
    async with asyncio.timeout(timeout):
        while True:
            found = answer()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(every)

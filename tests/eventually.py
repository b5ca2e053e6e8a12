"""Waits for a cluster that changes meanwhile."""

import asyncio

from tests.patience import PATIENCE


async def eventually(answer):
    """Wait until a function returns a true value and return it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = answer()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.02)

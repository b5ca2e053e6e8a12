"""A real evaluator with its ports and log lines."""

import asyncio
import re

from tests.patience import PATIENCE


class EvaluatorProcess:
    """A running evaluator with its stderr so far, and the ports that it listens on, by name."""

    def __init__(self, process):
        self._process = process
        self.lines = []
        self.ports = {}
        self._told = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def _read(self):
        async for raw in self._process.stderr:
            line = raw.decode()
            async with self._told:
                self.lines.append(line)
                if found := re.search(r"msg=listening server=(\w+) address=\S*:(\d+)", line):
                    self.ports[found[1]] = int(found[2])
                self._told.notify_all()

    async def said(self, words):
        async with asyncio.timeout(PATIENCE), self._told:
            await self._told.wait_for(lambda: any(words in line for line in self.lines))

    async def listening(self):
        async with asyncio.timeout(PATIENCE), self._told:
            await self._told.wait_for(lambda: self.ports.keys() >= {"ops", "agents", "extender"})

    def signal(self, number):
        self._process.send_signal(number)

    async def ended(self):
        """Its exit status."""
        async with asyncio.timeout(PATIENCE):
            status = await self._process.wait()
            await self._reading
        return status

    async def kill(self):
        if self._process.returncode is None:
            self._process.kill()
        await self.ended()

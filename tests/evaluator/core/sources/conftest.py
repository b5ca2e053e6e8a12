"""Programs for tests of sources: agents, Prometheus, the evaluator."""

import asyncio
import os
import re

import pytest

from tests import preloaded
from tests.patience import PATIENCE


class Program:
    """A process whose log is read continuously."""

    def __init__(self, process):
        self._process = process
        self.lines = []
        self._told = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def _read(self):
        async for raw in self._process.stderr:
            async with self._told:
                self.lines.append(raw.decode())
                self._told.notify_all()

    async def said(self, pattern):
        """Return the first matching line."""

        def found():
            return next((m for line in self.lines if (m := re.search(pattern, line))), None)

        async with asyncio.timeout(PATIENCE), self._told:
            return await self._told.wait_for(found)

    def terminate(self):
        self._process.terminate()

    async def kill(self):
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._reading


@pytest.fixture
async def run(tmp_path):
    """Start programs; they end with the test."""
    started = []

    async def start(*argv):
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        if preloaded.program_of(argv):
            process = await preloaded.start(argv, environment, stderr=asyncio.subprocess.PIPE)
        else:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
            )
        started.append(Program(process))
        return started[-1]

    yield start
    for program in started:
        await program.kill()

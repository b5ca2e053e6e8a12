"""An agent with text files and a fake collector, and the scripted evaluator that it streams to."""

import asyncio

import pytest

from agent.scrape.runner import CollectorRunner
from agent.stream.client import StreamClient, Target
from collectors.textfile import Options, TextFile
from plimsoll.backoff import Backoff
from tests.agent.stream.scripted import Evaluator, Source


@pytest.fixture
def files(tmp_path):
    """Write a .prom file atomically, as an operator's script should; None deletes it."""
    path, aside = tmp_path / "text.prom", tmp_path / "text.prom.tmp"

    def write(text):
        if text is None:
            path.unlink()
        else:
            aside.write_text(text)
            aside.rename(path)

    return write


@pytest.fixture
def memory():
    return Source("node_memory_MemAvailable_bytes")


@pytest.fixture
def collector_runner(tmp_path, memory):
    made = CollectorRunner(
        {"textfile": TextFile(Options((str(tmp_path),))), "meminfo": memory}, poll_interval=0.01
    )
    yield made
    made.close()


@pytest.fixture
async def evaluator():
    made = Evaluator()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def states(collector_runner, evaluator):
    """Run the stream client as node-a and record when the stream was up and lost."""
    noted = []
    target = Target(f"127.0.0.1:{evaluator.port}", "node-a")
    backoff = Backoff(lambda: 0.0, first=0.01, longest=0.1)
    streamer = StreamClient(target, collector_runner, on_state=noted.append, backoff=backoff)
    task = asyncio.create_task(streamer.run())
    yield noted
    assert not task.done(), task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

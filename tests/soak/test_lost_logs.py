"""The real programs without a place for log lines: they continue, at no cost."""

import asyncio
import random
import resource

import aiohttp
import psutil
import pytest

from sandbox.processes import HeldPort
from sandbox.programs import AgentLaunch, agent_command
from tests.patience import PATIENCE
from tests.preloaded import Processes

pytestmark = [pytest.mark.e2e, pytest.mark.features("pages")]

TALKATIVE = ("--log.level=debug", "--leaderElect=false")


def deaf(how):
    """A command prefix that makes stderr unusable."""
    redirection = {"full": "2>/dev/full", "gone": "2> >(:)"}[how]
    return ("bash", "-c", f'exec "$@" {redirection}', "deaf")


def cpu_seconds(pid):
    """The CPU time of a process so far."""
    used = psutil.Process(pid).cpu_times()
    return used.user + used.system


async def test_evaluator_without_log_output_answers_and_labels(start_world):
    """At the same CPU cost per work as another."""
    world = await start_world(TALKATIVE, TALKATIVE, before=[deaf("gone")])
    before = [cpu_seconds(one.pid) for one in world.evaluators]
    rng = random.Random(1)
    for _ in range(3):
        reading = world.readings[rng.choice(world.moody)]
        reading.becomes(1.0 - reading.value)
        await world.agrees()
        await world.answered(30)
    for evaluator in world.evaluators:
        assert not evaluator.wrong
    mute, heard = (
        cpu_seconds(one.pid) - was for one, was in zip(world.evaluators, before, strict=False)
    )
    assert mute < 2 * heard, "a dropped line costs no more than a written one"


async def test_temporarily_full_disk_loses_lines_without_tracebacks(start_world):
    world = await start_world(TALKATIVE)
    [evaluator] = world.evaluators
    log = evaluator.log
    size = log.stat().st_size
    # Files of this process may grow by a few bytes only, as on a full disk.
    _, most = resource.prlimit(evaluator.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(evaluator.pid, resource.RLIMIT_FSIZE, (size + 10, most))
    reading = world.readings["moody-1"]
    for value in (1.0, 0.0, 1.0):
        reading.becomes(value)
        await world.agrees()
    await world.answered(50)
    assert log.stat().st_size <= size + 10
    resource.prlimit(evaluator.pid, resource.RLIMIT_FSIZE, (most, most))
    reading.becomes(0.0)
    await world.agrees()
    await world.eventually(lambda: "log lines could not be written" in log.read_text())
    whole = [line for line in log.read_text().splitlines() if line.startswith("ts=")]
    assert "Traceback" not in log.read_text()
    assert "Logging error" not in log.read_text()
    assert len(whole) >= len(log.read_text().splitlines()) - 1, "one line may be truncated"
    assert not evaluator.wrong


@pytest.mark.parametrize("how", ["full", "gone"])
async def test_agent_without_log_output_is_scraped(how, tmp_path):
    """It logs much: its evaluator does not exist."""
    processes = Processes(tmp_path)
    with HeldPort() as port, HeldPort() as nobody:
        launch = AgentLaunch(
            "node-a", tmp_path, port.address, nobody.address, ("--log.level=debug",)
        )
        pid = await processes.start("agent", (*deaf(how), *agent_command(launch)))
        try:
            async with aiohttp.ClientSession() as session:
                url = f"http://{port.address}/metrics"
                for _ in range(20):
                    text = await scrape(session, url)
                    assert 'scrape_collector_success{collector="meminfo"} 1' in text
            assert processes.pid("agent") == pid
        finally:
            await processes.close()


async def scrape(session, url):
    """Wait for a page."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                async with session.get(url) as response:
                    assert response.status == 200
                    return await response.text()
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)

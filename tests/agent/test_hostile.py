"""The agent process under hostile clients: its answers meanwhile, and leaks afterwards."""

import asyncio
import contextlib
import os
import re
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

pytestmark = pytest.mark.e2e
GET = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"

ATTACKS = {
    "silence": b"",
    "half a line": b"GET /metr",
    "half a header": b"GET /metrics HTTP/1.1\r\nHost: x\r\n",
    "half a body": b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx",
    "unread pages": GET % b"/metrics" * 3,
    "no HTTP": bytes(range(256)) * 4,
}


class Agent:
    """A running agent."""

    def __init__(self, pid, port):
        self.port = port
        self._proc = Path("/proc") / str(pid)

    def open_files(self):
        return len(list((self._proc / "fd").iterdir()))

    def resident(self):
        """Mebibytes."""
        found = re.search(r"VmRSS:\s+(\d+) kB", (self._proc / "status").read_text())
        return int(found[1]) / 1024


@pytest.fixture
async def agent():
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "agent"),
        *("--web.listen-address=127.0.0.1:0", "--log.format=logfmt"),
        *("--collector.synthetic", "--collector.synthetic.metrics=1500"),
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"NODE_NAME": "node-a"},
    )
    said = []
    try:
        async with asyncio.timeout(PATIENCE):
            while not (found := re.search(r"msg=listening address=\S+:(\d+)", "".join(said))):
                said.append((await process.stderr.readline()).decode())
        yield Agent(process.pid, int(found[1]))
    finally:
        process.terminate()
        rest = (await process.communicate())[1].decode()
    assert process.returncode == 0
    assert "Traceback" not in rest


async def test_probes_and_scrapes_are_answered_under_attack_and_nothing_leaks(agent, dial, until):
    assert (await scraped(await dial(agent.port))).status == 200
    before = agent.open_files()
    for said in ATTACKS.values():
        peers = [await dial(agent.port) for _ in range(140)]  # more than its limit
        for peer in peers:
            peer.writer.transport.pause_reading()
            with contextlib.suppress(ConnectionError):
                peer.writer.write(said)
        # Each on a new connection: an idle one may have been closed.
        asked = await scraped(scraper := await dial(agent.port))
        assert (
            asked.status == 200 or b"scrapes are being answered, which is the limit" in asked.body
        )
        probe = await dial(agent.port)
        assert (await probe.ask(GET % b"/healthz")).body == b"ok\n"
        for peer in (*peers, scraper, probe):
            peer.vanish()
        await until(lambda: agent.open_files() <= before)
        again = await dial(agent.port)
        async with asyncio.timeout(PATIENCE):
            while (await scraped(again)).status != 200:
                pass  # unwanted scrapes have to end
        again.vanish()
    assert agent.resident() < 192  # the manifest's limit


async def scraped(peer):
    reply = await peer.ask(GET % b"/metrics")
    assert reply.status in {200, 503}
    assert reply.status == 503 or b"\nnode_synthetic_9 " in reply.body
    return reply

"""Endless header lists on the agents' port, without a token: agents of the same address connect and stay, and all answers are right."""

import asyncio
import contextlib
import json
import re
import sys
from pathlib import Path

import grpc
import pytest

from sandbox.controllers.nodes import node_object
from tests.eventually import eventually
from tests.patience import PATIENCE
from wire import telemetry_pb2, telemetry_pb2_grpc

pytestmark = [pytest.mark.e2e, pytest.mark.features("extender", "evictions", "gangs", "pages")]

FLOODS = Path(__file__).with_name("floods.py")
AGENTS = 100
NODES = [f"node-{number}" for number in range(AGENTS)]
RESTARTS = "plimsoll_agents_port_restarts_total"
CLOSED = "plimsoll_agents_connections_closed_total"
PERIOD = 1.0
"""Seconds between two reports."""


class Agents:
    """Agents of one address, with a token each. `losses`: streams that ended."""

    def __init__(self, installation):
        self._installation = installation
        self.connected = 0
        self.losses = []

    async def run(self, node):
        ca = self._installation.authority.file.read_bytes()
        address = f"127.0.0.1:{self._installation.port('agents')}"
        options = [("grpc.use_local_subchannel_pool", 1)]
        shown = grpc.ssl_channel_credentials(ca)
        token = f"Bearer {self._installation.secrets.agent_token}-{node}"
        async with grpc.aio.secure_channel(address, shown, options) as channel:
            stream = telemetry_pb2_grpc.TelemetryStub(channel).Stream(
                metadata=(("authorization", token),)
            )
            try:
                await self._report(node, stream)
            except grpc.aio.AioRpcError as error:
                self.losses.append((node, error.code(), error.details()))

    async def _report(self, node, stream):
        await stream.write(telemetry_pb2.Report(node_name=node, agent_version="1"))
        generation = (await stream.read()).generation
        self.connected += 1
        while True:
            report = telemetry_pb2.Report(node_name=node, generation=generation, full=True)
            report.indices.append(0)
            report.values.append(0.0)
            await stream.write(report)
            await asyncio.sleep(PERIOD)


async def metric(dial, installation, name):
    peer = await dial(installation.port("ops"))
    page = await peer.ask(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    return float(re.search(rf"^{name} (\S+)$", page.body.decode(), re.MULTILINE)[1])


@contextlib.asynccontextmanager
async def flooded(port):
    """8 connections with 8 MiB of header fields each, opened again when they are closed."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(FLOODS), "continuation", str(port), "8", "h2"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert await program.stdout.readline()
        yield
    finally:
        program.kill()
        program.stdin.close()
        await program.wait()


def question(installation):
    body = json.dumps({"Pod": installation.pod(), "NodeNames": ["node-a", *NODES]}).encode()
    lines = b"POST /scheduler/filter HTTP/1.1", b"Host: x", b"Content-Length: %d" % len(body)
    return b"\r\n".join((*lines, b"", body))


async def test_agents_connect_and_stay_and_answers_are_right_beside_endless_header_lists(
    installation, dial
):
    for number, node in enumerate(NODES):
        await installation.api.call("POST", "/api/v1/nodes", node_object(node, number, now=1e9))
    await installation.start_evaluator("--staleAfter=10s")
    await installation.start_agent()
    agents = Agents(installation)
    scheduler = await dial(
        installation.port("extender"), installation.authority.client(*installation.scheduler)
    )
    async with asyncio.TaskGroup() as tasks, flooded(installation.port("agents")):
        running = [tasks.create_task(agents.run(node)) for node in NODES]

        async def ready():
            return agents.connected == AGENTS and await right(scheduler, installation)

        await eventually(ready)
        until = await metric(dial, installation, CLOSED) + 30
        async with asyncio.timeout(PATIENCE):
            while await metric(dial, installation, CLOSED) < until:
                assert await right(scheduler, installation)
                assert await metric(dial, installation, RESTARTS) == 0
        assert await metric(dial, installation, "plimsoll_agents_connected") == AGENTS + 1
        assert agents.losses == []
        for task in running:
            task.cancel()


async def right(scheduler, installation):
    """Whether only the node whose health is 1 is refused."""
    answer = json.loads((await scheduler.ask(question(installation))).body)
    passing, failing = answer.get("NodeNames") or (), answer.get("FailedNodes") or ()
    return sorted(passing) == sorted(NODES) and list(failing) == ["node-a"]

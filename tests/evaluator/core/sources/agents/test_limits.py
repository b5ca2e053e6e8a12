"""What one agent may use of the port, over real connections: limits of gRPC and our own."""

import asyncio
import contextlib
import subprocess
import sys

import grpc
import pytest

from agent.stream.client import LONGEST_BACKOFF
from evaluator.core.sources.agents.grpc_port import GrpcPort
from evaluator.core.sources.agents.limits import AgentLimits
from tests.evaluator.core.sources.agents.test_server import Agent, Evaluator
from tests.patience import PATIENCE
from tests.security.rawh2 import DATA, GOAWAY, SETTINGS, Peer, frame, report
from wire import telemetry_pb2_grpc

PROGRAM = """
import resource
from evaluator.core.sources.agents import limits
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(limits.share_of_descriptors({wanted}, reserved={reserved}), resource.getrlimit(resource.RLIMIT_NOFILE))
"""


Code = grpc.StatusCode
SHUT = bytes([0, 4, 0, 0, 0, 0])
"""SETTINGS_INITIAL_WINDOW_SIZE 0: nothing may be sent on a stream."""


def test_agents_reconnect_before_their_readings_are_given_up():
    assert AgentLimits().reconnect > LONGEST_BACKOFF


@pytest.fixture
async def port():
    """Open a port with limits."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(**limits):
            made = Evaluator(**limits)
            made.want("a")
            made.port = await made.agents.start(GrpcPort("127.0.0.1:0"))
            stack.push_async_callback(made.agents.stop)
            return made

        yield start


@pytest.fixture
async def agent():
    """Connect to a port, each time on a new connection."""
    async with contextlib.AsyncExitStack() as stack:

        async def connect(evaluator, node="node-a", *, shared=False):
            options = [("grpc.use_local_subchannel_pool", not shared)]
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{evaluator.port}", options)
            await stack.enter_async_context(channel)
            return Agent(telemetry_pb2_grpc.TelemetryStub(channel).Stream(), node)

        yield connect


async def test_missing_handshake_is_closed(port):
    evaluator = await port(handshake=0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", evaluator.port)
    async with asyncio.timeout(PATIENCE):
        await reader.read()
    writer.close()


async def test_silent_stream_is_closed(port, agent):
    node = await agent(await port(introduction=0.2))
    assert (await node.ended())[0] in {Code.OK, Code.UNAVAILABLE}


@pytest.mark.parametrize("shared", [True, False], ids=["one connection", "a connection each"])
async def test_total_streams_are_bounded(port, agent, shared):
    evaluator = await port(streams=2)
    first = [await agent(evaluator, f"node-{number}", shared=shared) for number in range(2)]
    for node in first:
        await node.introduced()
    refused = await agent(evaluator, "node-2", shared=shared)
    with contextlib.suppress(grpc.aio.AioRpcError):
        await refused.say()
    code, _ = await refused.ended()
    assert code is (Code.RESOURCE_EXHAUSTED if shared else Code.UNAVAILABLE)
    evaluator.want("a", "b")
    for node in first:
        assert list((await node.hear()).metrics) == ["a", "b"]


async def test_two_agents_of_one_name_replace_each_other_at_a_limited_rate(port, agent):
    evaluator = await port(beginnings=2, pause=5.0)
    first, second, third = [await agent(evaluator) for _ in range(3)]
    await first.introduced()
    await second.introduced()
    assert await first.ended() == (
        Code.ALREADY_EXISTS,
        "another stream for node node-a has begun",
    )
    await third.say()
    assert await third.ended() == (
        Code.RESOURCE_EXHAUSTED,
        "streams of node node-a are opened too often",
    )
    evaluator.want("a", "b")
    assert list((await second.hear()).metrics) == ["a", "b"], "the open one is kept"
    evaluator.clock.now += 5.1
    again = await agent(evaluator)
    await again.introduced()
    assert (await second.ended())[0] is Code.ALREADY_EXISTS


async def test_peer_that_never_reads_delays_no_other_and_is_closed_by_age(port, agent):
    evaluator = await port(age=1.0)
    deaf = await Peer.connect(evaluator.port)
    await deaf.send(frame(SETTINGS, 0, 0, SHUT))
    await deaf.call(1, report(node_name="node-d"))
    node = await agent(evaluator)
    await node.introduced()
    for generation in range(10):
        evaluator.want("a", f"b{generation}")
    assert "a" in (await node.hear()).metrics
    kinds = [found[0] async for found in deaf.frames()]
    assert GOAWAY in kinds
    assert DATA not in kinds
    deaf.vanish()


async def test_unread_subscription_is_replaced_by_the_newest(port, until):
    evaluator = await port()
    deaf = await Peer.connect(evaluator.port)
    await deaf.send(frame(SETTINGS, 0, 0, SHUT))
    await deaf.call(1, report(node_name="node-d"))
    await until(lambda: evaluator.agents.connected == 1)
    (stream,) = evaluator.agents._registry.current
    for generation in range(100):
        evaluator.want("a", f"b{generation}")
        await asyncio.sleep(0)
    await until(lambda: stream._next is not None and "b99" in stream._next.metrics)
    assert len(stream._protocol._subscriptions) == 1
    deaf.vanish()
    await until(lambda: evaluator.agents.connected == 0)


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "reserved", "had", "warned"),
    [
        pytest.param(128, 512, 100, 100, "100 (400, 512)", False, id="raised"),
        pytest.param(128, 512, 137, 101, "137 (512, 512)", False, id="raised to the hard limit"),
        pytest.param(400, 512, 100, 100, "100 (400, 512)", False, id="enough"),
        pytest.param(
            128, 512, 500, 100, "137 (512, 512)", True, id="reserved descriptors are kept"
        ),
        pytest.param(128, 512, 500, 400, "85 (512, 512)", True, id="half where both do not fit"),
        pytest.param(128, 512, 30, 500, "30 (512, 512)", True, id="no more than wanted"),
    ],
)
def test_port_gets_what_it_wants_beside_reserved_descriptors(
    soft, hard, wanted, reserved, had, warned
):
    program = PROGRAM.format(soft=soft, hard=hard, wanted=wanted, reserved=reserved)
    ran = subprocess.run(
        [sys.executable, "-P", "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert ran.stdout.splitlines()[-1] == had
    assert ("fewer open files" in ran.stdout + ran.stderr) is warned

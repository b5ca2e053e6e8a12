"""The agents' port in a process of its own: what it relays, and how both processes end."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys

import grpc
import psutil
import pytest

from evaluator.core.sources.agents import port_process
from evaluator.core.sources.agents.calls import (
    WINDOW,
    CallEndedError,
    FrameKind,
    FrameSocket,
    ServerOptions,
    size,
)
from evaluator.core.sources.agents.certificates import load_certificates
from evaluator.core.sources.agents.port_process import PortProcess, PortRestarts
from evaluator.core.tls import Files
from tests.evaluator.core.sources.agents.test_server import Agent, Evaluator
from tests.eventually import eventually
from tests.patience import PATIENCE
from tests.security import rawh2
from tests.security.rawh2 import CONTINUATION, DATA, HEADERS, SETTINGS, Peer, frame, report
from wire import telemetry_pb2_grpc

METHOD = "/plimsoll.telemetry.v1.Telemetry/Stream"
NO_WINDOW = bytes([0, 4, 0, 0, 0, 0])
"""SETTINGS_INITIAL_WINDOW_SIZE 0: nothing may be sent on a stream."""

PROGRAM = """
import asyncio
from evaluator.core.sources.agents.calls import ServerOptions
from evaluator.core.sources.agents.port_process import PortProcess, PortRestarts

async def serve(call):
    await call.read()

async def main():
    port = PortProcess("127.0.0.1:0")
    print(await port.open(serve, ServerOptions((), 10)), port.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


class Restarts(PortRestarts):
    """Puts the reason of each restart into a queue."""

    def __init__(self, reasons):
        super().__init__()
        self._reasons = reasons

    def note(self, reason):
        super().note(reason)
        self._reasons.put_nowait(reason)


class Site:
    """An evaluator with such a port."""

    def __init__(self, **limits):
        self.restarts = asyncio.Queue()
        self.evaluator = Evaluator(**limits)
        self.closed = []
        self.process = PortProcess(
            "127.0.0.1:0", restarts=Restarts(self.restarts), closed=self.closed.append
        )

    async def start(self):
        self.evaluator.want("a")
        self.evaluator.port = await self.evaluator.agents.start(self.process)


@pytest.fixture
async def site():
    made = Site()
    await made.start()
    yield made
    await made.evaluator.agents.stop()


@pytest.fixture
async def agent(site):
    async with contextlib.AsyncExitStack() as stack:

        async def connect(node="node-a"):
            options = [("grpc.use_local_subchannel_pool", True)]
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{site.evaluator.port}", options)
            await stack.enter_async_context(channel)
            return Agent(telemetry_pb2_grpc.TelemetryStub(channel).Stream(), node)

        yield connect


async def test_agents_report_and_are_told_of_subscriptions(site, agent):
    nodes = [await agent(f"node-{number}") for number in range(20)]
    for node in nodes:
        subscription = await node.introduced()
        await node.say(generation=subscription.generation, full=True, indices=[0], values=[7.0])
    await site.evaluator.heard(20)
    assert site.evaluator.store.reading("a", "node-19").value == 7.0
    site.evaluator.want("a", "b")
    for node in nodes:
        assert list((await node.hear()).metrics) == ["a", "b"]
    assert site.evaluator.agents.connected == 20


async def test_rejection_reaches_the_agent(agent):
    node = await agent("No Name")
    await node.say()
    assert await node.ended() == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "a node_name is a lower-case DNS subdomain of at most 253 characters",
    )


async def test_agent_that_goes_is_forgotten(site, agent):
    node = await agent()
    await node.introduced()
    node.stream.cancel()
    await eventually(lambda: site.evaluator.agents.connected == 0)


async def test_port_is_opened_again_on_the_same_number_when_its_process_was_killed(site, agent):
    node = await agent()
    await node.introduced()
    os.kill(site.process.pid, signal.SIGKILL)
    assert (await node.ended())[0] is grpc.StatusCode.UNAVAILABLE
    async with asyncio.timeout(PATIENCE):
        assert await site.restarts.get() == "ended with status -9"
        while True:
            again = await agent()
            with contextlib.suppress(grpc.aio.AioRpcError):
                if await again.introduced():
                    break
    assert site.evaluator.agents.connected == 1


async def test_stopping_ends_the_process_and_the_streams(site, agent):
    node = await agent()
    await node.introduced()
    process = psutil.Process(site.process.pid)
    await site.evaluator.agents.stop()
    assert not process.is_running()
    assert (await node.ended())[0] in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
    assert site.evaluator.agents.connected == 0


async def test_process_that_cannot_be_started_is_an_os_error_and_later_tried_again(
    site, monkeypatch
):
    def refuse(_end):
        raise BlockingIOError("no more processes")

    spawn = port_process._spawn
    monkeypatch.setattr(port_process, "_spawn", refuse)
    with pytest.raises(OSError, match="cannot be started: no more processes"):
        await Evaluator().agents.start(PortProcess("127.0.0.1:0"))
    os.kill(site.process.pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE):
        assert await site.restarts.get() == "ended with status -9"
        assert await site.restarts.get() == "cannot be started: no more processes"
        monkeypatch.setattr(port_process, "_spawn", spawn)
        await eventually(lambda: site.process.pid)


async def test_messages_are_sent_ahead_within_a_window_once_the_first_was_read(monkeypatch):
    asked, arrived, calls = [], [], asyncio.Queue()

    class Watched(FrameSocket):
        def send(self, kind, call=0, content=b""):
            asked.extend([call] if kind is FrameKind.READ else [])
            super().send(kind, call, content)

        async def frames(self):
            async for one in super().frames():
                arrived.append(one)
                yield one

    async def serve(call):
        calls.put_nowait(call)
        await asyncio.Event().wait()

    monkeypatch.setattr(port_process, "FrameSocket", Watched)
    port = PortProcess("127.0.0.1:0")
    address = f"127.0.0.1:{await port.open(serve, ServerOptions((), 10))}"
    said = [b"%d" % number * 7 for number in range(400)]
    async with grpc.aio.insecure_channel(address) as channel, asyncio.timeout(PATIENCE):

        async def begun(messages):
            stream = channel.stream_stream(METHOD)()
            for message in messages:
                await stream.write(message)
            return stream, await calls.get()

        async def ahead():
            """What has arrived of a call, when that of a later one has."""
            _, probe = await begun([b"probe"])
            await probe.read()
            return [f.content for f in arrived if (f.kind, f.call) == (FrameKind.MESSAGE, 1)]

        stream, call = await begun(said)
        await stream.done_writing()
        assert await ahead() == said[:1], "its client is not admitted"
        assert [await call.read() for _ in range(2)] == said[:2]
        assert sum(map(size, (await ahead())[1:])) < WINDOW + size(said[-1])
        assert [await call.read() for _ in range(398)] == said[2:]
        assert await call.read() is None
    assert asked.count(1) <= 10, "of 400 messages"
    await port.close()


async def test_certificate_may_have_comments_of_any_encoding(tmp_path, authority):
    file, key = authority.issue("evaluator")
    (tmp_path / "crt").write_bytes(
        "# Zertifikat f\u00fcr Agenten\n".encode("latin-1") + file.read_bytes()
    )
    pem = load_certificates(Files(str(tmp_path / "crt"), str(key), None)).current
    evaluator = Evaluator()
    evaluator.want("a")
    port = await evaluator.agents.start(PortProcess("127.0.0.1:0", pem))
    shown = grpc.ssl_channel_credentials(authority.file.read_bytes())
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", shown) as channel:
        node = Agent(telemetry_pb2_grpc.TelemetryStub(channel).Stream(), "node-a")
        assert (await node.introduced()).generation
    await evaluator.agents.stop()


async def test_address_in_use_is_an_os_error(site):
    other = PortProcess(f"127.0.0.1:{site.evaluator.port}")
    with pytest.raises(
        OSError, match=f"cannot listen on 127.0.0.1:{site.evaluator.port}: .*in use"
    ):
        await Evaluator().agents.start(other)
    assert other.pid is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_process_ends_with_the_evaluator(number):
    with subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM], stdout=subprocess.PIPE, text=True
    ) as evaluator:
        _, pid = evaluator.stdout.readline().split()
        process = psutil.Process(int(pid))
        process.send_signal(signal.SIGTERM)  # as to a group: the evaluator decides
        process.send_signal(signal.SIGINT)
        assert process.is_running()
        evaluator.send_signal(number)
    process.wait(PATIENCE)


async def test_header_lists_of_unadmitted_clients_close_their_connections_and_no_others(
    site, agent
):
    nodes = [await agent(f"node-{number}") for number in range(20)]
    subscriptions = [await node.introduced() for node in nodes]
    first = site.process.pid
    fields = rawh2.literal("a", "b" * 100) * 150
    for _ in range(16):
        peer = await Peer.connect(site.evaluator.port)
        await peer.send(frame(HEADERS, 0, 1, rawh2.call_headers()))
        await peer.send(*[frame(CONTINUATION, 0, 1, fields)] * (8 << 20 >> 14))
        assert await peer.closed()
        peer.vanish()
    await eventually(lambda: sum(site.closed) == 16)
    for node, subscription in zip(nodes, subscriptions, strict=True):
        await node.say(generation=subscription.generation, full=True, indices=[0], values=[7.0])
    await site.evaluator.heard(20)
    assert site.evaluator.agents.connected == 20
    assert (site.process.pid, site.restarts.empty()) == (first, True)


async def test_reports_of_an_admitted_agent_are_not_cut(site, agent):
    node = await agent()
    large = "1" * (60 << 10)
    await node.say(agent_version=large)
    reading = {"generation": (await node.hear()).generation, "full": True, "indices": [0]}
    for _ in range(10):
        await node.say(agent_version=large, values=[7.0], **reading)
    await site.evaluator.heard(10)
    assert site.closed == []
    assert site.evaluator.agents.connected == 1


async def test_header_lists_of_an_admitted_client_end_the_process_beyond_a_bound_of_memory(
    site, agent, monkeypatch
):
    own = psutil.Process()
    node = await agent()
    await node.introduced()
    first, before = site.process.pid, own.memory_info().rss
    monkeypatch.setattr(
        port_process, "_MOST_MEMORY", psutil.Process(first).memory_info().rss + (30 << 20)
    )
    fields = rawh2.literal("a", "b" * 100) * 150
    peers = [await Peer.connect(site.evaluator.port) for _ in range(4)]
    for number, peer in enumerate(peers):
        await peer.call(1, report(node_name=f"node-{number}"))
        assert await peer.until(DATA), "admitted"
    for peer in peers:
        await peer.send(frame(HEADERS, 0, 3, rawh2.call_headers()))
        await peer.send(*[frame(CONTINUATION, 0, 3, fields)] * (12 << 20 >> 14))
    async with asyncio.timeout(PATIENCE):
        reason = await site.restarts.get()
    assert re.fullmatch(r"took \d+ MiB of memory, at most \d+", reason)
    assert own.memory_info().rss < before + (40 << 20), "the client's share of this process"
    for peer in peers:
        peer.vanish()


async def test_write_fails_when_the_process_ends():
    calls = asyncio.Queue()

    async def serve(call):
        calls.put_nowait(call)
        await asyncio.Event().wait()

    port = PortProcess("127.0.0.1:0")
    number = await port.open(serve, ServerOptions((), 10))
    deaf = await Peer.connect(number)
    await deaf.send(frame(SETTINGS, 0, 0, NO_WINDOW))
    await deaf.call(1, report(node_name="node-a"))
    call = await calls.get()
    assert call.caller.peer.startswith("ipv4:127.0.0.1:")
    writing = asyncio.create_task(call.write(b"x"))
    await asyncio.wait([writing], timeout=0.1)
    assert not writing.done(), "the peer does not read"
    os.kill(port.pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(CallEndedError):
            await writing
        with pytest.raises(CallEndedError):
            await call.write(b"x")
    deaf.vanish()
    await port.close()


def test_each_process_loads_its_own_part():
    evaluator = "import sys, evaluator.app; print('grpc' in sys.modules)"
    port = "import sys, evaluator.core.sources.agents.port_child; print('structlog' in sys.modules)"
    for program in (evaluator, port):
        done = subprocess.run(
            [sys.executable, "-P", "-c", program],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        assert done.stdout == "False\n"

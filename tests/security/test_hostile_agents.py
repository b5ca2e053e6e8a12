"""A hostile client with one node's certificate can affect that node's readings only.

After each attack the test checks another node's readings and their age, the answer to kube-scheduler, and the evaluator's
descriptors, memory and log.
"""

import asyncio
import contextlib
import json
import math
import re
import ssl

import aiohttp
import grpc
import pytest
import pytest_asyncio

from sandbox.controllers.nodes import node_object
from tests.fuzz.service import READINGS, Service
from tests.patience import PATIENCE
from tests.security import rawh2
from tests.security.rawh2 import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    GOAWAY,
    HEADERS,
    PING,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Peer,
    frame,
    message,
    report,
)
from tests.tuned_evaluator import tuned
from wire import telemetry_pb2, telemetry_pb2_grpc

pytestmark = [
    pytest.mark.features("pages"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.e2e,
]

MALLORY = "node-m"
GROWTH = 48 << 20
FRESH = 5.0
"""Seconds within which each report of a once-a-second agent must arrive."""
Code = grpc.StatusCode
LIMITS = {
    "handshake": 1.0,
    "introduction": 1.0,
    "streams": 200,
    "streams_per_connection": 20,
    "pause": 0.1,
    "report_bytes": 256 << 10,
}


class Attacker:
    """The attacker: a certificate of node-m, a raw HTTP/2 client, and a well-behaved gRPC client."""

    def __init__(self, installation, authority):
        self.installation = installation
        self.authority = authority
        self.pair = authority.issue(MALLORY)
        self.port = installation.ports["agentPort"]
        self._peers = []

    def tls(self, *, certified=True):
        context = self.authority.client(*(self.pair if certified else ()))
        context.set_alpn_protocols(["h2"])
        return context

    async def peer(self, *, greet=True):
        peer = await Peer.connect(self.port, self.tls(), greet=greet)
        self._peers.append(peer)
        return peer

    def vanish(self):
        """Reset every remaining connection."""
        for peer in self._peers:
            peer.vanish()

    @contextlib.asynccontextmanager
    async def stream(self, node=MALLORY, *, patient=True):
        """A call after its first report; by default no sooner than the rate allows."""
        if patient:
            await asyncio.sleep(0.15)
        cert, key = (file.read_bytes() for file in self.pair)
        shown = grpc.ssl_channel_credentials(self.authority.file.read_bytes(), key, cert)
        options = [("grpc.use_local_subchannel_pool", 1)]
        address = f"127.0.0.1:{self.port}"
        async with grpc.aio.secure_channel(address, shown, options) as channel:
            call = telemetry_pb2_grpc.TelemetryStub(channel).Stream()
            await call.write(telemetry_pb2.Report(node_name=node))
            yield call

    async def says(self, **fields):
        """The status with which a stream ends after these messages."""
        async with self.stream() as call:
            subscription = await call.read()
            if subscription is not grpc.aio.EOF:
                fields = {"node_name": MALLORY, "generation": subscription.generation} | fields
                with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    await call.write(telemetry_pb2.Report(**fields))
            async with asyncio.timeout(PATIENCE):
                return await call.code()


async def another_nodes_name_at_first(attacker):
    async with attacker.stream("node-b") as call:
        assert await call.code() is Code.PERMISSION_DENIED


async def another_nodes_name_later(attacker):
    fields = {"full": True, "indices": [0], "values": [1.0]}
    assert await attacker.says(node_name="node-b", **fields) is Code.INVALID_ARGUMENT


async def names_that_no_node_has(attacker):
    for name in (
        "NODE-B",
        "node-b\n",
        "node-b\x00",
        "../node-b",
        "node b",
        "ノード",
        "x" * 254,
        "-",
    ):
        async with attacker.stream(name) as call:
            assert await call.code() is Code.INVALID_ARGUMENT


async def indices_out_of_range(attacker):
    for index in (1, 2**31, 2**32 - 1):
        fields = {"full": True, "indices": [index], "values": [1.0]}
        assert await attacker.says(**fields) is Code.INVALID_ARGUMENT


async def huge_counts(attacker):
    several = [telemetry_pb2.Several(index=0, samples=2**32 - 1)]
    assert await attacker.says(full=True, several=several) is Code.INVALID_ARGUMENT
    for fields in ({"absent": [0] * 100_000}, {"indices": [0] * 9_000, "values": [1.0] * 9_000}):
        assert await attacker.says(full=True, **fields) is Code.INVALID_ARGUMENT


async def the_same_metric_again_and_again(attacker):
    fields = {"full": True, "indices": [0], "values": [1.0], "absent": [0]}
    assert await attacker.says(**fields) is Code.INVALID_ARGUMENT


async def games_with_generations(attacker):
    for generation in (0, 1, 2**63, 2**64 - 1):
        fields = {"full": True, "generation": generation}
        assert await attacker.says(**fields) is Code.INVALID_ARGUMENT
    assert await attacker.says(full=False) is Code.INVALID_ARGUMENT


async def values_that_are_no_numbers(attacker):
    """Valid frames at an excessive rate."""
    async with attacker.stream() as call:
        generation = (await call.read()).generation
        for value in (math.nan, math.inf, -math.inf, -0.0, 1e308, 5e-324) * 3:
            await call.write(
                telemetry_pb2.Report(
                    node_name=MALLORY,
                    generation=generation,
                    full=True,
                    indices=[0],
                    values=[value],
                )
            )


async def a_report_that_is_too_large(attacker):
    fields = {"indices": [0] * 100_000, "values": [1.0] * 100_000}
    assert await attacker.says(**fields) is Code.RESOURCE_EXHAUSTED


async def a_message_that_is_no_report(attacker):
    peer = await attacker.peer()
    await peer.call(1, message(b"\xff" * 100))
    assert await peer.until(HEADERS), "the stream ends, the connection stays open"
    peer.vanish()


async def half_a_message(attacker):
    for _ in range(5):
        peer = await attacker.peer()
        await peer.call(1, message(b"\x0a", size=200_000))
        await asyncio.sleep(0)
        peer.vanish()
    waiting = await attacker.peer()
    await waiting.call(1, message(b"\x0a", size=200_000))
    assert await waiting.closed(), "a silent client is closed when the first report is due"


async def garbage_instead_of_http(attacker):
    for garbage in (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"\x00" * 5000, bytes(range(256)) * 40):
        peer = await attacker.peer(greet=False)
        await peer.send(garbage)
        assert await peer.closed()


async def garbage_instead_of_tls(attacker):
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\x00" * 9000):
        reader, writer = await asyncio.open_connection("127.0.0.1", attacker.port)
        writer.write(garbage)
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                await reader.read()
        writer.transport.abort()


async def no_certificate(attacker):
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        peer = await Peer.connect(attacker.port, attacker.tls(certified=False))
        try:
            assert await peer.closed()
        finally:
            peer.vanish()


async def handshakes_that_are_never_made(attacker):
    """All are closed at the handshake timeout."""
    opened = [await asyncio.open_connection("127.0.0.1", attacker.port) for _ in range(100)]
    async with asyncio.timeout(PATIENCE):
        for reader, writer in opened:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.transport.abort()


async def a_greeting_that_never_comes(attacker):
    peers = [await attacker.peer(greet=False) for _ in range(20)]
    assert all([await peer.closed() for peer in peers])


async def connections_without_streams(attacker):
    peers = [await attacker.peer() for _ in range(20)]
    assert all([await peer.closed() for peer in peers])


async def more_connections_than_there_may_be(attacker):
    """Connections beyond `AgentLimits.streams` are closed at once, and open ones are kept."""
    opened = [await asyncio.open_connection("127.0.0.1", attacker.port) for _ in range(400)]
    assert attacker.installation.descriptors < attacker.installation.descriptors_before + 220
    async with asyncio.timeout(PATIENCE):
        for reader, writer in opened:
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.transport.abort()


async def broken_headers(attacker):
    for block in (b"\xff" * 50, b"\x00\x7f\xff\xff\xff\xff\xff\xff", b"\x80"):
        peer = await attacker.peer()
        await peer.send(frame(HEADERS, END_HEADERS, 1, block))
        assert await peer.closed()


async def headers_without_end(attacker):
    peer = await attacker.peer()
    await peer.send(frame(HEADERS, 0, 1, rawh2.call_headers()))
    for _ in range(200):
        await peer.send(frame(CONTINUATION, 0, 1, rawh2.literal("x", "y" * 10_000)))
    peer.vanish()


async def metadata_beyond_all_measure(attacker):
    peer = await attacker.peer()
    await peer.call(1, report(node_name=MALLORY), more=[("x", "y" * 16_000)] * 1)
    await peer.send(frame(HEADERS, 0, 3, rawh2.call_headers()))
    await peer.send(*[frame(CONTINUATION, 0, 3, rawh2.literal("x", "y" * 15_000))] * 20)
    await peer.send(frame(CONTINUATION, END_HEADERS, 3))
    peer.vanish()


async def a_flood_of_pings(attacker):
    few, many = await attacker.peer(), await attacker.peer()
    await few.call(1, report(node_name=MALLORY))
    await few.send(*[frame(PING, 0, 0, bytes(8))] * 10)
    assert await few.until(GOAWAY), "the limit applies"
    for _ in range(20):
        await many.send(*[frame(PING, 0, 0, bytes(8))] * 1000)
    assert await many.closed(), "and later bytes are not read"


async def a_flood_of_settings(attacker):
    peer = await attacker.peer()
    for _ in range(20):
        await peer.send(*[frame(SETTINGS, 0, 0)] * 500)
    peer.vanish()


async def streams_that_are_reset_at_once(attacker):
    peer = await attacker.peer()
    for first in range(1, 4000, 400):
        for stream in range(first, first + 400, 2):
            await peer.call(stream)
            await peer.send(frame(RST_STREAM, 0, stream, bytes([0, 0, 0, 8])))
    peer.vanish()


async def thousands_of_streams_on_one_connection(attacker):
    peer = await attacker.peer()
    for stream in range(1, 6001, 2):
        await peer.call(stream, report(node_name=MALLORY))
    refused = await peer.until(RST_STREAM)
    while refused is not None and refused[3][3] == 0:  # NO_ERROR: the stream ended with a status
        refused = await peer.until(RST_STREAM)
    assert refused is None or refused[3][3] in {7, 11}, "REFUSED_STREAM, or ENHANCE_YOUR_CALM"
    peer.vanish()


async def two_that_fight_for_a_name(attacker):
    """Streams of one node are rate-limited, whichever client opens them."""
    codes = []
    async with contextlib.AsyncExitStack() as stack:
        calls = [await stack.enter_async_context(attacker.stream(patient=False)) for _ in range(30)]
        asking = {asyncio.ensure_future(call.code()) for call in calls[:-1]}
        while Code.RESOURCE_EXHAUSTED not in codes:
            done, asking = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            codes += [task.result() for task in done]
        done, asking = await asyncio.wait(asking, timeout=0.2)  # one of them holds the name
        codes += [task.result() for task in done]
        for one in asking:
            one.cancel()
    assert Code.RESOURCE_EXHAUSTED in codes
    assert set(codes) <= {Code.RESOURCE_EXHAUSTED, Code.ALREADY_EXISTS}


async def one_that_never_reads(attacker):
    """The client reads nothing and keeps the window closed: a new stream still replaces it."""
    deaf = await attacker.peer()
    await deaf.send(frame(SETTINGS, 0, 0, bytes([0, 4, 0, 0, 0, 0])))
    await deaf.call(1, report(node_name=MALLORY))
    await asyncio.sleep(0.5)
    await attacker.installation.answers_for_mallory(attacker)
    deaf.vanish()


async def frames_against_the_book(attacker):
    peers = []
    for broken in (
        frame(DATA, 0, 1, b"x"),
        frame(SETTINGS, ACK, 0, b"x"),
        frame(SETTINGS, 0, 1, b""),
        frame(PING, 0, 0, b"short"),
        frame(WINDOW_UPDATE, 0, 0, bytes(4)),
        frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff") * 2,
        frame(HEADERS, END_HEADERS, 2, rawh2.call_headers()),
        frame(CONTINUATION, END_HEADERS, 1, b""),
        b"\xff\xff\xff" + bytes(6) + b"\x00" * 20_000,
    ):
        peers.append(await attacker.peer())
        await peers[-1].send(broken)
    assert all([await peer.closed() for peer in peers])


async def data_beyond_the_window(attacker):
    peer = await attacker.peer()
    await peer.call(1, report(node_name=MALLORY))
    for _ in range(100):
        await peer.send(frame(DATA, 0, 1, message(b"", size=200_000) + b"\x00" * 16_000))
    peer.vanish()


async def an_end_in_the_middle(attacker):
    for ending in (
        frame(RST_STREAM, 0, 1, bytes(4)),
        frame(GOAWAY, 0, 0, bytes(8)),
        frame(DATA, rawh2.END_STREAM, 1),
        b"",
    ):
        peer = await attacker.peer()
        await peer.call(1, report(node_name=MALLORY))
        assert await peer.until(DATA), "the subscription"
        await peer.send(frame(DATA, 0, 1, message(b"\x0a\x06node", size=50)), ending)
        peer.vanish()
        await asyncio.sleep(0.15)


ATTACKS = [
    another_nodes_name_at_first,
    another_nodes_name_later,
    names_that_no_node_has,
    indices_out_of_range,
    huge_counts,
    the_same_metric_again_and_again,
    games_with_generations,
    values_that_are_no_numbers,
    a_report_that_is_too_large,
    a_message_that_is_no_report,
    half_a_message,
    garbage_instead_of_http,
    garbage_instead_of_tls,
    no_certificate,
    handshakes_that_are_never_made,
    a_greeting_that_never_comes,
    connections_without_streams,
    more_connections_than_there_may_be,
    broken_headers,
    headers_without_end,
    metadata_beyond_all_measure,
    a_flood_of_pings,
    a_flood_of_settings,
    streams_that_are_reset_at_once,
    thousands_of_streams_on_one_connection,
    two_that_fight_for_a_name,
    one_that_never_reads,
    frames_against_the_book,
    data_beyond_the_window,
    an_end_in_the_middle,
]


class Attacked(Service):
    """The programs with one more node, whose agent is the attacker."""

    async def begin(self):
        await self.start("--log.level=debug", program=tuned(agent_limits=LIMITS))
        server = json.loads((self.log.parent / "kubeconfig").read_text())["clusters"][0]["cluster"]
        node = node_object(MALLORY, 9, now=0.0)
        async with (
            aiohttp.ClientSession(server["server"]) as api,
            api.post("/api/v1/nodes", json=node) as done,
        ):
            assert done.status == 201
        self.descriptors_before = self.descriptors
        self.resident_before = self.resident

    async def refused(self):
        """The nodes rejected for a pod of the policy."""
        labels = {"telemetry-policy": "demo"}
        meta = {"name": "p", "namespace": "default", "labels": labels}
        body = {"Pod": {"metadata": meta}, "Nodes": None, "NodeNames": ["node-a", "node-b"]}
        url = f"https://127.0.0.1:{self.ports['port']}/scheduler/filter"
        async with (
            aiohttp.ClientSession() as http,
            http.post(url, json=body, ssl=self.tls) as answer,
        ):
            assert answer.status == 200
            return set((await answer.json())["FailedNodes"])

    async def explained(self):
        async with (
            aiohttp.ClientSession(self._ops) as http,
            http.get("/explain/default/demo") as answer,
        ):
            assert answer.status == 200
            return await answer.json()

    async def answers_for_mallory(self, attacker):
        """A well-behaved stream of the attacker's node is served."""
        async with asyncio.timeout(PATIENCE):
            while True:
                async with attacker.stream() as call:
                    if await call.read() is not grpc.aio.EOF:
                        return
                await asyncio.sleep(0.1)

    async def is_as_it_was(self):
        """Descriptors are released within the times of LIMITS."""
        assert await self.refused() == {"node-a"}
        found = (await self.explained())["nodes"]
        for node, value in READINGS.items():
            reading = found[node]["readings"]["health"]
            assert reading["value"] == value
            assert reading["ageSeconds"] < FRESH
        async with asyncio.timeout(PATIENCE):
            while self.descriptors > self.descriptors_before + 2:  # noqa: ASYNC110 (another process tells nobody)
                await asyncio.sleep(0.1)
        assert self.resident < self.resident_before + GROWTH
        assert "Traceback" not in self.log.read_text(errors="replace")
        both = re.compile(r"^plimsoll_agents_connected 2\.0$", re.MULTILINE)
        async with asyncio.timeout(PATIENCE):  # the attacker's streams end with its connections
            while not both.search(await self.metrics()):  # noqa: ASYNC110 (as above)
                await asyncio.sleep(0.1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installation(tmp_path_factory, authority):
    made = Attacked(tmp_path_factory.mktemp("service"), authority)
    try:
        await made.begin()
        yield made
    finally:
        await made.close()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
async def test_attack_by_one_nodes_agent_affects_no_other_node(installation, authority, attack):
    async with asyncio.timeout(PATIENCE):
        attacker = Attacker(installation, authority)
        try:
            await attack(attacker)
        finally:
            attacker.vanish()
        await installation.is_as_it_was()

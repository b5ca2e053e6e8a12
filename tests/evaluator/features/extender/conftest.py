"""The extender on a real port, and a client that can send malformed requests."""

import asyncio
import contextlib
import time
from dataclasses import dataclass

import pytest
from prometheus_client import CollectorRegistry

from evaluator.core import tls
from evaluator.core.http.ports import SharedRoutes
from evaluator.core.policy.decide import Decisions, decide
from evaluator.core.readings.store import Store
from evaluator.features.extender.policies import ExtenderMetrics, PolicyVerbs
from evaluator.features.extender.verbs import for_any
from plimsoll.http.addresses import Address
from plimsoll.http.limits import Limits
from plimsoll.http.server import Server as HttpServer
from tests.patience import PATIENCE
from wire.codec import Delta

NODES = ("node-a", "node-b", "node-c")
NOW = 1000.0


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """One TCP connection that sends the given HTTP/1.1 bytes."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    async def post(self, path, body, **headers):
        return await self.request("POST", path, body, **headers)

    async def request(self, method, path, body=b"", **headers):
        spelled = {"Content-Length": str(len(body)), **headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in spelled.items())
        return await self.exchange(
            f"{method} {path} HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode() + body
        )

    async def exchange(self, data, *, half_close=False):
        await self.say(data, half_close=half_close)
        return await self.reply()

    async def say(self, data, *, half_close=False):
        self.writer.write(data)
        if half_close:
            self.writer.write_eof()
        await self.writer.drain()

    async def reply(self):
        async with asyncio.timeout(PATIENCE):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = {
                name.lower(): value for name, value in (line.split(": ", 1) for line in lines)
            }
            body = await self.reader.readexactly(int(headers["content-length"]))
        return Reply(int(first.split()[1]), headers, body)

    async def ended(self):
        """Return the remaining bytes until the server closes the connection."""
        async with asyncio.timeout(PATIENCE):
            return await self.reader.read()


class Server:
    def __init__(self, port, registry, http):
        self.port = port
        self.registry = registry
        self._http = http

    @property
    def connections(self):
        """The number of open connections."""
        return self._http.connections

    @contextlib.asynccontextmanager
    async def connection(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield Connection(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def post(self, path, body, **headers):
        return await self.request("POST", path, body, **headers)

    async def request(self, method, path, body=b"", **headers):
        async with self.connection() as connection:
            return await connection.request(method, path, body, **headers)

    def counted(self, verb, code, outcome):
        labels = {"verb": verb, "code": str(code), "outcome": outcome}
        return self.registry.get_sample_value("plimsoll_extender_requests_total", labels)


@pytest.fixture
async def extender():
    """Start an extender with given decisions, or with those that a callable returns."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(
            decisions=None,
            *,
            tls=lambda: None,
            scoring=lambda _: (),
            for_pod=for_any,
            placements=None,
            clock=time.monotonic,
            **limits,
        ):
            source = decisions if callable(decisions) else lambda: decisions or Decisions()
            registry = CollectorRegistry()
            verbs = PolicyVerbs(
                source,
                ExtenderMetrics(registry),
                for_pod=for_pod,
                placements=placements,
                clock=clock,
            )
            shared = SharedRoutes([verbs.routes, *scoring(registry)])
            server = HttpServer(
                shared.routes.answer,
                check=shared.routes.check,
                refuse=shared.refuse,
                limits=Limits(**limits),
                tls=tls,
            )
            (address,) = await server.listen([Address("127.0.0.1", 0)])
            stack.push_async_callback(server.close)
            return Server(address.port, registry, server)

        yield start


@pytest.fixture(scope="module")
def decisions(parsed, rule):
    """ns/demo-policy over three nodes, violated by node-b, and ns/empty without rules."""
    policy = parsed(
        "demo-policy",
        dontschedule=[rule("health_metric Equals 1")],
        scheduleonmetric=[rule("health_metric LessThan 0")],
    )
    store = Store(stale_after=30.0, started=0.0)
    store.subscribe(policy.metrics)
    for node, value in zip(NODES, (0.0, 1.0, 2.0), strict=True):
        store.report(node, Delta({"health_metric": value}), NOW)
    empty = parsed("empty", deschedule=[])
    return decide([policy, empty], NODES, store, now=NOW)


@pytest.fixture
async def server(extender, decisions):
    """An extender with the fixture `decisions`."""
    return await extender(decisions)


@pytest.fixture(scope="session")
def secured(authority):
    """Mutual TLS for `extender`, with a certificate that `authority` signed."""
    cert, key = authority.issue("extender")
    return tls.rotation(tls.Files(str(cert), str(key), str(authority.file))).current

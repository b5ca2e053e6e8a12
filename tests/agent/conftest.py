"""A fake source, and a client that speaks bytes: what the agent's tests share."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.addresses import Address
from agent.connection import Handler, Limits
from agent.server import Server
from agent.tls import Tls
from collectors.host import Host
from collectors.sample import Family, Sample

FIXTURES = Path(__file__).parents[1] / "collectors/fixtures"


def gauge(name: str, value: float, **labels: str) -> Family:
    return Family(name, "gauge", f"Help of {name}.", (Sample(name, tuple(labels.items()), value),))


@dataclass
class FakeSource:
    """A collector that yields what the test put in, after raising what the test put in."""

    families: Sequence[Family] = ()
    error: Exception | None = None
    before: Callable[[], None] = lambda: None
    runs: int = 0
    seen: list[str] = field(default_factory=list)

    def collect(self) -> Iterable[Family]:
        self.runs += 1
        self.before()
        yield from self.families
        if self.error is not None:
            raise self.error


@pytest.fixture
def source() -> type[FakeSource]:
    return FakeSource


@pytest.fixture
def family() -> Callable[..., Family]:
    return gauge


@pytest.fixture
def xeon() -> Host:
    """A machine whose files do not change."""
    root = FIXTURES / "xeon"
    assert root.is_dir()
    return Host("xeon", root / "proc", root / "sys", root, root / "run/udev/data")


class Client:
    """One connection to a server under test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    async def get(self, path: str, *headers: str, method: str = "GET") -> "Reply":
        head = "\r\n".join([f"{method} {path} HTTP/1.1", "Host: test", *headers, "", ""])
        await self.send(head.encode())
        return await self.reply(body=method != "HEAD")

    async def reply(self, *, body: bool = True) -> "Reply":
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status_line, *lines = head.strip().split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
        }
        length = int(headers["content-length"]) if body else 0
        content = await self.reader.readexactly(length)
        return Reply(int(status_line.split()[1]), headers, content)

    async def ended(self) -> bool:
        """Wait until the server has closed the connection; True if it sent nothing more."""
        return await self.reader.read() == b""


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Site:
    """A running server."""

    address: Address
    server: Server
    stack: AsyncExitStack

    async def connect(self, tls: ssl.SSLContext | None = None) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.address.port, ssl=tls)
        self.stack.callback(writer.close)
        return Client(reader, writer)


@asynccontextmanager
async def serving(
    handler: Handler, limits: Limits | None, tls: Callable[[], Tls | None]
) -> AsyncIterator[Site]:
    server = Server(handler, limits=limits, tls=tls)
    (address,) = await server.listen([Address("127.0.0.1", 0)])
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.close)
        yield Site(address, server, stack)


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[Site]]]:
    """Start a server on a free port of the loopback; it ends with the test."""
    async with AsyncExitStack() as stack:

        async def start(
            handler: Handler,
            limits: Limits | None = None,
            *,
            tls: Callable[[], Tls | None] = lambda: None,
        ) -> Site:
            return await stack.enter_async_context(serving(handler, limits, tls))

        yield start


@pytest.fixture(scope="session")
def server_pair(authority) -> tuple[Path, Path]:
    return authority.issue("server")

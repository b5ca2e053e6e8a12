"""Settings of all tests, and fixtures for any port: certificates, and a client that sends exact bytes."""

import asyncio
import contextlib
import json
import logging
import os
import re
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
import structlog

from plimsoll.http.addresses import Address
from plimsoll.http.limits import Limits
from plimsoll.http.server import Server
from plimsoll.http.types import Handler
from sandbox.pki import CertificateAuthority, KeyPair
from tests import compiled, preloaded
from tests.examples import load_settings
from tests.features import present
from tests.patience import PATIENCE, patient
from tests.workers import (  # noqa: F401  hooks
    pytest_collection,
    pytest_collection_modifyitems,
    pytest_configure_node,
    pytest_sessionstart,
    pytest_xdist_make_scheduler,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak",
        action="store_true",
        help="run soak tests, fuzzing and property tests at full size: hours",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Load Hypothesis' settings before test modules read them, and let processes of tests start fast.

    aiohttp loads the machine's CA bundle when imported: a quarter of its import time. Tests trust only their own CAs.
    Without bytecode, each process compiles each module again, and pytest rewrites each test module again.
    """
    os.environ["SSL_CERT_FILE"] = os.devnull
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    load_settings(full=bool(config.getoption("--soak")))


@pytest.fixture(autouse=True, scope="module")
def _log_settings() -> Iterator[None]:
    """Undo logs.setup(), which programs called in this process leave behind."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture(autouse=True, scope="session")
def _grpc_is_kept() -> None:
    """Keep gRPC from ending its poller thread with the last channel.

    It waits for that thread where the channel is freed. In a garbage collection, it waits for ever.
    """
    grpc.aio.init_grpc_aio()


@pytest.fixture(autouse=True, scope="session")
def _templates_are_compiled_once() -> Iterator[None]:
    """Let the pages of all tests share the bytecode of their templates: compiling them takes 200 ms of CPU for each test."""
    with pytest.MonkeyPatch.context() as patch:
        compiled.share(patch)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests of features that were deleted: those that the mark `features` names."""
    needed = {name for mark in item.iter_markers("features") for name in mark.args}
    if missing := sorted(name for name in needed if not present(name)):
        pytest.skip(f"without {', '.join(missing)}")


def pytest_sessionfinish() -> None:
    preloaded.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Escape captured output: xdist cannot transfer lone surrogates, which some tests log."""
    report = yield
    report.sections = [
        (name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections
    ]
    return report


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether tests with two sizes run at the full one."""
    return bool(request.config.getoption("--soak"))


Until = Callable[[Callable[[], bool]], Awaitable[None]]


@pytest.fixture
def until() -> Until:
    """Wait until a predicate is true, with a generous timeout."""

    async def wait(predicate: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not predicate():  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    return wait


class Authority(CertificateAuthority):
    """A CA that signs certificates for loopback."""

    def issue(
        self, name: str, *, san: str = "IP:127.0.0.1", days: int = 3650, usage: str = ""
    ) -> KeyPair:
        return super().issue(name, san=san, days=days, usage=usage)

    def client(self, *pair: Path) -> ssl.SSLContext:
        """Return a client's TLS context that trusts this CA, with an optional client certificate."""
        context = ssl.create_default_context(cafile=str(self.file))
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
        if pair:
            context.load_cert_chain(*pair)
        return context


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="session")
def untrusted(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A CA that no component trusts."""
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


_STATUS_LINE = re.compile(r"HTTP/1\.1 (\d{3}) [ -~]*")
_FIELD_LINE = re.compile(r"([-!#$%&'*+.^_`|~0-9A-Za-z]+): ([ -~]*)")


@dataclass(frozen=True)
class Reply:
    """A response. Header names are in lower case and unique."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Peer:
    """One connection, plain or TLS, that sends exactly the given bytes and accepts only well-formed HTTP responses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, raw: bytes, *, end: bool = False) -> None:
        """Send bytes; a closed server is noticed by the next read. `end`: close the sending side."""
        with contextlib.suppress(ConnectionError):
            self.writer.write(raw)
            if end:
                self.writer.write_eof()
            await self.writer.drain()

    async def ask(self, raw: bytes, *, end: bool = False) -> Reply:
        """Send bytes and return one response."""
        await self.say(raw, end=end)
        return await self.reply()

    async def reply(self, *, head: bool = False) -> Reply:
        """Return the next response; `head`: to a HEAD request. Raises asyncio.IncompleteReadError or ConnectionError."""
        async with asyncio.timeout(PATIENCE):
            raw = await self.reader.readuntil(b"\r\n\r\n")
            first, *lines = raw.decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
            status = int(_matched(_STATUS_LINE, first)[1])
            fields = [_matched(_FIELD_LINE, line) for line in lines]
            headers = {field[1].lower(): field[2] for field in fields}
            assert len(headers) == len(lines), lines
            bodiless = head or status < 200 or status == 304
            length = 0 if bodiless else int(headers["content-length"])
            return Reply(status, headers, await self.reader.readexactly(length))

    async def replies(self) -> list[Reply]:
        """Return every response until the server closes the connection; the last one must be complete."""
        found: list[Reply] = []
        try:
            while True:
                found.append(await self.reply())
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise
        except ConnectionError:
            pass  # bytes that the server did not read cause a reset
        return found

    async def rest(self) -> bytes:
        """Return the remaining bytes until the server closes or resets the connection."""
        found = bytearray()
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                while part := await self.reader.read(65536):
                    found += part
        return bytes(found)

    def vanish(self) -> None:
        """Reset the connection."""
        self.writer.transport.abort()


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    assert found, text
    return found


Dial = Callable[..., Awaitable[Peer]]


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    """Connect to a loopback port, plain or with TLS; the connections end with the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def connect(port: int, tls: ssl.SSLContext | None = None) -> Peer:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
            peer = Peer(reader, writer)
            stack.callback(peer.vanish)  # an unreferenced writer warns that it was not closed
            return peer

        yield connect


class Client(Peer):
    """One connection to a server under test, with a method to get pages."""

    async def get(self, path: str, *headers: str, method: str = "GET") -> Reply:
        head = "\r\n".join([f"{method} {path} HTTP/1.1", "Host: test", *headers, "", ""])
        await self.say(head.encode())
        return await self.reply(head=method == "HEAD")

    async def ended(self) -> bool:
        """Wait until the server has closed the connection; return whether it sent nothing more."""
        return await self.rest() == b""


@dataclass
class Site:
    """A running server."""

    address: Address
    server: Server
    stack: contextlib.AsyncExitStack

    async def connect(self, tls: ssl.SSLContext | None = None) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.address.port, ssl=tls)
        return self._client(reader, writer)

    async def connect_with(self, raw: bytes) -> Client:
        """Connect with bytes that have arrived when the server accepts the connection."""
        plain = socket.create_connection(("127.0.0.1", self.address.port))
        plain.sendall(raw)
        return self._client(*await asyncio.open_connection(sock=plain))

    def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Client:
        self.stack.callback(writer.close)
        return Client(reader, writer)


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[Site]]]:
    """Start a server on a free loopback port; it ends with the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(handler: Handler, limits: Limits | None = None, **more: Any) -> Site:
            server = Server(handler, limits=limits or patient(Limits()), **more)
            (address,) = await server.listen([Address("127.0.0.1", 0)])
            stack.push_async_callback(server.close)
            return Site(address, server, stack)

        yield start


def _read_logfmt(line: str) -> dict[str, str]:
    found: dict[str, str] = {}
    rest = line
    while rest:
        end = next((i for i, c in enumerate(rest) if c in " ="), len(rest))
        key, after = rest[:end], rest[end + 1 :]
        assert key, line
        assert '"' not in key, line
        assert key not in found, f"{key} twice in {line}"
        if rest[end : end + 1] != "=":  # a flag
            found[key], rest = "true", after
        elif after.startswith('"'):
            found[key], length = json.JSONDecoder().raw_decode(after)
            assert after[length : length + 1] in {"", " "}, line
            rest = after[length + 1 :]
        else:
            found[key], _, rest = after.partition(" ")
            assert not {*found[key]} & {"=", '"'}, line
    return found


@pytest.fixture(scope="session")
def read_logfmt() -> Callable[[str], dict[str, str]]:
    """Parse a log line as strictly as github.com/go-logfmt/logfmt does."""
    return _read_logfmt

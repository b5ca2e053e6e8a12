"""TLS handshakes: accepted clients, and plain HTTP on a TLS port."""

import asyncio
import contextlib
import gc
import shutil
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from http import HTTPStatus

import pytest

from plimsoll.http.limits import Limits
from plimsoll.http.tls import Tls, server_context
from plimsoll.http.types import Request, Response
from tests.patience import PATIENCE, patient

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not on PATH")


async def hello(_: Request) -> Response:
    return Response(HTTPStatus.OK, b"hello")


@pytest.fixture
async def site(serve, authority):
    """A server that requires client certificates."""
    context = server_context()
    context.load_cert_chain(*authority.issue("server"))
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    return await serve(hello, patient(Limits(linger=0.2)), tls=lambda: Tls(context))


class Resuming:
    """A client that resumes its last TLS session."""

    def __init__(self, site, context, version):
        self._address = ("127.0.0.1", site.address.port)
        self._context = context
        self._context.minimum_version = self._context.maximum_version = version
        self._session = None
        self.resumed = False

    async def status(self):
        """The status of a response, or "" if the handshake failed."""
        return await asyncio.to_thread(self._ask)

    def _ask(self):
        plain = socket.create_connection(self._address, timeout=PATIENCE)
        try:
            with self._context.wrap_socket(
                plain, server_hostname="127.0.0.1", session=self._session
            ) as client:
                self.resumed = bool(client.session_reused)
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                answer = client.recv(65536)
                self._session = client.session
                return answer.partition(b"\r\n")[0].decode()
        except (ssl.SSLError, ConnectionError):
            return ""


async def test_tls_1_3_sessions_are_not_resumed(site, authority):
    client = Resuming(site, authority.client(*authority.issue("client")), ssl.TLSVersion.TLSv1_3)
    for _ in range(2):
        assert await client.status() == "HTTP/1.1 200 OK"
        assert not client.resumed


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "get"])
async def test_plain_http_to_a_tls_port_gets_a_hint_to_use_https(site, authority, method):
    client = await site.connect()
    await client.say(f"{method} / HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    told = await client.rest()
    assert told.startswith(b"HTTP/1.0 400 Bad Request\r\n")
    assert told.endswith(b"sent an HTTP request to an HTTPS port: use https://\n")
    tls = authority.client(*authority.issue("client"))
    assert (await (await site.connect(tls)).get("/")).status == 200


async def test_silent_client_allocates_no_tls_memory(site, until):
    gc.freeze()  # objects of earlier tests are no longer among those of the collector
    silent = [await site.connect() for _ in range(20)]
    await until(lambda: site.server.connections == len(silent))
    assert not [p for p in gc.get_objects() if isinstance(p, SSLProtocol) and p._server_side]


@pytest.fixture
async def stall(monkeypatch):
    """Let time pass in which the event loop does nothing."""
    loop, passed = asyncio.get_running_loop(), 0.0
    clock = loop.time
    monkeypatch.setattr(loop, "time", lambda: clock() + passed)

    def stop_for(seconds):
        nonlocal passed
        passed += seconds

    return stop_for


async def accepted(site, until):
    """A connection for which the server waits."""
    plain = socket.create_connection(("127.0.0.1", site.address.port), timeout=PATIENCE)
    await until(lambda: site.server.connections == 1)
    await turns()
    return plain


async def turns():
    """Let the server wait for the client again."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_handshake_begun_in_time_is_completed_by_a_server_that_stalls(
    authority, serve, until, stall
):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("server"))
    site = await serve(hello, patient(Limits()), tls=lambda: Tls(context))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = authority.client().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with await accepted(site, until) as plain:
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        plain.sendall(outgoing.read())
        stall(2 * PATIENCE)
        while not client.version():
            incoming.write(await asyncio.to_thread(plain.recv, 65536))
            with contextlib.suppress(ssl.SSLWantReadError):
                client.do_handshake()
        client.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        plain.sendall(outgoing.read())
        answered = b""
        while not answered:
            incoming.write(await asyncio.to_thread(plain.recv, 65536))
            with contextlib.suppress(ssl.SSLWantReadError):
                answered = client.read()
    assert answered.startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("before", [0, 1])
async def test_request_that_came_in_time_is_answered_by_a_server_that_stalled(
    serve, until, stall, before
):
    site = await serve(hello, Limits(header=PATIENCE, idle=PATIENCE))
    with await accepted(site, until) as plain:
        for _ in range(before):
            plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await asyncio.to_thread(plain.recv, 65536)
            await turns()
        plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        stall(2 * PATIENCE)
        answered = await asyncio.to_thread(plain.recv, 65536)
    assert answered.startswith(b"HTTP/1.1 200 OK\r\n")

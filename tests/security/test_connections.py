"""Unauthenticated connections leak no memory, fail no probe, and take no descriptors of other ports."""

import asyncio
import contextlib
import socket
import ssl
import subprocess
import time

import aiohttp
import pytest
import pytest_asyncio

from sandbox.processes import HeldPort
from tests.fuzz.service import Service
from tests.patience import PATIENCE

pytestmark = [
    pytest.mark.features("gangs"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.e2e,
]

AT_ONCE = 20
HANDSHAKES = 150
"""Each left 270 KiB behind when only the garbage collector freed TLS connections."""
BODIES, BODY_BYTES = 150, 512 << 10
MEMORY = 1.2
"""Maximum memory afterwards, as a multiple of that before the attack."""
PLACES = 32
"""Connections of the ops port."""
PROBES, BETWEEN = 40, 6
"""Probes, and connections between a probe's connection and its request: 300 a second and 20 ms."""
OPEN_FILES, SILENT = 600, 700
GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: %s\r\n\r\n"
REFUSED = (OSError, asyncio.IncompleteReadError)


class Attacked(Service):
    """An evaluator with TLS and the gangs' webhook."""

    async def begin(self):
        with HeldPort() as webhook:
            await self.start("--gangs", f"--gangWebhookPort={webhook.number}")
            self.ports["webhook"] = webhook.number

    async def filtered(self):
        """Send a filter request on a new connection; return the passing nodes."""
        meta = {"name": "p", "namespace": "default", "labels": {"telemetry-policy": "demo"}}
        body = {"Pod": {"metadata": meta}, "Nodes": None, "NodeNames": ["node-a", "node-b"]}
        url = f"https://127.0.0.1:{self.ports['port']}/scheduler/filter"
        async with (
            aiohttp.ClientSession() as http,
            http.post(url, json=body, ssl=self.tls) as answer,
        ):
            assert answer.status == 200
            return (await answer.json())["NodeNames"]

    @contextlib.asynccontextmanager
    async def probing(self):
        """A kubelet's connection, and a probe on it: the first line of the response, "" if there is none."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports["opsPort"])

        async def ask(path=b"/healthz"):
            writer.write(GET % (path, b"close"))
            with contextlib.suppress(*REFUSED):
                return (await reader.readuntil(b"\r\n")).strip()
            return b""

        try:
            yield ask
        finally:
            writer.transport.abort()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installation(tmp_path_factory, authority):
    made = Attacked(tmp_path_factory.mktemp("service"), authority)
    try:
        await made.begin()
        yield made
    finally:
        await made.close()


async def repeated(times, act):
    """Repeat something many times, partly concurrently."""
    left = iter(range(times))

    async def work():
        for _ in left:
            await act()

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())


def shake_hands(port):
    """Do a TLS handshake without a certificate and read the result."""

    async def act(installation, authority):
        with contextlib.suppress(*REFUSED):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", installation.ports[port], ssl=authority.client()
            )
            try:
                await asyncio.wait_for(reader.read(1), 1.0)
            except TimeoutError:
                pass
            finally:
                writer.transport.abort()

    return act


async def break_off_a_handshake(installation, authority):
    with contextlib.suppress(*REFUSED):
        _, writer = await asyncio.open_connection("127.0.0.1", installation.ports["port"])
        writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        await writer.drain()
        writer.transport.abort()


async def break_off_a_body(installation, authority):
    with contextlib.suppress(*REFUSED):
        _, writer = await asyncio.open_connection(
            "127.0.0.1", installation.ports["webhook"], ssl=authority.client()
        )
        head = b"POST /gangs/gate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % (BODY_BYTES * 2) + bytes(BODY_BYTES))
        await writer.drain()
        writer.transport.abort()


@pytest.mark.parametrize(
    ("times", "act"),
    [
        pytest.param(HANDSHAKES, shake_hands("port"), id="no-certificate-9001"),
        pytest.param(HANDSHAKES, shake_hands("agentPort"), id="no-certificate-9091"),
        pytest.param(HANDSHAKES, break_off_a_handshake, id="half-a-hello-9001"),
        pytest.param(BODIES, break_off_a_body, id="half-a-body-9443"),
    ],
)
async def test_memory_is_released_when_connections_end(installation, authority, times, act):
    before = installation.resident
    await repeated(times, lambda: act(installation, authority))
    async with asyncio.timeout(PATIENCE):
        while installation.resident > before * MEMORY:  # noqa: ASYNC110 (another process tells nobody)
            await asyncio.sleep(0.1)
    assert await installation.filtered() == ["node-b"]


@contextlib.asynccontextmanager
async def kept_alive(installation, address):
    """Idle connections on all but one slot of the ops port, each of which has had a response."""
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(PLACES - 1):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", installation.ports["opsPort"], local_addr=(address, 0)
            )
            stack.callback(writer.close)
            writer.write(GET % (b"/healthz", b"keep-alive"))
            await reader.readuntil(b"\r\n\r\n")
        yield


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"], ids=["same", "another"])
async def test_flood_of_connections_fails_no_probe(installation, address):
    """From the kubelet's own address, which other clients may share, or from another one."""
    flood = []
    async with kept_alive(installation, address):
        try:
            for number in range(PROBES):
                async with installation.probing() as probe:
                    flood += [await connected(installation, address) for _ in range(BETWEEN)]
                    answer = await probe(b"/readyz" if number % 2 else b"/healthz")
                    assert answer == b"HTTP/1.1 200 OK", f"probe {number}"
        finally:
            for connection in flood:
                connection.close()


async def connected(installation, address):
    """A silent connection."""
    target = ("127.0.0.1", installation.ports["opsPort"])
    return await asyncio.to_thread(socket.create_connection, target, PATIENCE, (address, 0))


async def test_silent_connections_of_one_port_leave_descriptors_to_the_others(tmp_path, authority):
    installation = Attacked(tmp_path, authority, open_files=OPEN_FILES)
    silent = []
    try:
        await installation.begin()
        address = ("127.0.0.1", installation.ports["agentPort"])
        silent += [socket.create_connection(address) for _ in range(SILENT)]
        await taken(installation)
        assert installation.descriptors < OPEN_FILES
        async with asyncio.timeout(PATIENCE):
            async with installation.probing() as probe:
                assert await probe() == b"HTTP/1.1 200 OK"
            assert await installation.filtered() == ["node-b"]
        assert "cannot accept" not in installation.log.read_text()
    finally:
        for connection in silent:
            connection.close()
        await installation.close()


async def taken(installation):
    """Wait until the evaluator has accepted as many connections as it does."""
    steady, before = 0, -1
    while steady < 5:
        await asyncio.sleep(0.1)
        steady = steady + 1 if installation.descriptors == before else 0
        before = installation.descriptors


@pytest.fixture
def expiring(authority, tmp_path):
    """A client certificate that expires within seconds: the time, and the pair."""

    def issue():
        cert, key, request = (tmp_path / f"expiring.{kind}" for kind in ("crt", "key", "csr"))
        new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        _openssl("req", *new, "-subj", "/CN=x", "-keyout", str(key), "-out", str(request))
        (tmp_path / "index").write_text("")
        config = tmp_path / "ca.conf"
        config.write_text(
            f"[ca]\ndefault_ca=x\n[x]\ndatabase={tmp_path}/index\nnew_certs_dir={tmp_path}\n"
            "rand_serial=yes\ndefault_md=sha256\npolicy=any\n[any]\ncommonName=supplied\n"
        )
        ends = int(time.time()) + 4
        end = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(ends))
        signer = ("-cert", str(authority.file), "-keyfile", str(authority.folder / "ca.key"))
        _openssl(
            *("ca", "-batch", "-config", str(config), *signer, "-in", str(request)),
            *("-startdate", "20200101000000Z", "-enddate", end, "-out", str(cert), "-notext"),
        )
        return ends, (cert, key)

    return issue


def _openssl(*argv):
    subprocess.run(["openssl", *argv], check=True, capture_output=True, timeout=PATIENCE)


class Resuming:
    """A client of kube-scheduler's port that resumes its last TLS session."""

    def __init__(self, installation, context, version):
        self._address = ("127.0.0.1", installation.ports["port"])
        self._context = context
        self._context.minimum_version = self._context.maximum_version = version
        self._session = None
        self.resumed = False

    async def status(self):
        """The first line of a response; "" if there is none."""
        return await asyncio.to_thread(self._ask)

    def _ask(self):
        try:
            with (
                socket.create_connection(self._address, timeout=PATIENCE) as plain,
                self._context.wrap_socket(
                    plain, server_hostname="127.0.0.1", session=self._session
                ) as client,
            ):
                self.resumed = bool(client.session_reused)
                client.sendall(GET % (b"/", b"close"))
                answer = client.recv(65536)
                self._session = client.session
                return answer.partition(b"\r\n")[0]
        except OSError:
            return b""


async def test_expired_client_certificate_is_rejected_in_a_resumed_session(
    installation, authority, expiring
):
    ends, pair = expiring()
    versions = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    clients = [Resuming(installation, authority.client(*pair), version) for version in versions]
    for client in clients:
        assert await client.status() == b"HTTP/1.1 404 Not Found"
    await asyncio.sleep(max(ends - time.time(), 0) + 1.1)
    for client in clients:
        assert await client.status() == (b"HTTP/1.1 403 Forbidden" if client.resumed else b"")

"""The agents' port with TLS over real connections: authentication and authorization."""

import asyncio
import contextlib
import os
import shutil
import subprocess

import grpc
import pytest
from grpc.experimental import session_cache

from evaluator.core.access.user import InvalidTokenError, UnreviewedError
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.readings.store import Store
from evaluator.core.signals import AgentRefused, AgentReported, Signals, on
from evaluator.core.sources.agents import authn
from evaluator.core.sources.agents.authn import Authorizer
from evaluator.core.sources.agents.certificates import load_certificates
from evaluator.core.sources.agents.grpc_port import GrpcPort
from evaluator.core.sources.agents.limits import AgentLimits
from evaluator.core.sources.agents.server import AgentServer
from evaluator.core.tls import Files, TlsError
from tests.patience import PATIENCE
from wire import telemetry_pb2, telemetry_pb2_grpc

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not on PATH")

Code = grpc.StatusCode


def openssl(*arguments, cwd):
    subprocess.run(
        ["openssl", *arguments], cwd=cwd, check=True, capture_output=True, timeout=PATIENCE
    )


class Pki:
    """CAs and their certificates, as files in a folder."""

    def __init__(self, folder):
        self.folder = folder
        for ca in ("ca", "other-ca"):
            self._ask("-x509", "-out", f"{ca}.crt", "-days", "2", name=ca, subject=f"/CN={ca}")

    def issue(self, name, subject, *, san="", usage="", ca="ca"):
        """`<name>.crt` and `<name>.key`."""
        extensions = [f"subjectAltName={san}"] if san else []
        extensions += [f"extendedKeyUsage={usage}"] if usage else []
        wanted = [word for extension in extensions for word in ("-addext", extension)]
        self._ask("-out", f"{name}.csr", *wanted, name=name, subject=subject)
        signed = ("-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-CAcreateserial", "-days", "2")
        made = ("-in", f"{name}.csr", "-out", f"{name}.crt", "-copy_extensions", "copyall")
        openssl("x509", "-req", *made, *signed, cwd=self.folder)

    def _ask(self, *arguments, name, subject):
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        out = ("-keyout", f"{name}.key", "-subj", subject)
        openssl("req", *key, *out, *arguments, cwd=self.folder)

    def read(self, name):
        return (self.folder / name).read_bytes()

    def path(self, name):
        return str(self.folder / name)


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    made = Pki(tmp_path_factory.mktemp("pki"))
    made.issue("server", "/CN=evaluator", san="IP:127.0.0.1")
    made.issue("named", "/CN=evaluator", san="DNS:evaluator")
    made.issue("node-a", "/CN=node-a", usage="clientAuth")
    made.issue("kubelet", "/O=system:nodes/CN=system:node:node-a")
    made.issue("dns", "/CN=agents", san="DNS:node-b,DNS:node-a")
    made.issue("node-b", "/CN=node-b")
    made.issue("server-only", "/CN=node-a", usage="serverAuth")
    made.issue("stranger", "/CN=node-a", ca="other-ca")
    made.issue("renewed", "/CN=evaluator", san="IP:127.0.0.1", ca="other-ca")
    return made


class Port:
    """The evaluator's agent server with TLS."""

    def __init__(self, check, **limits):
        self.nodes = {"node-a", "node-b"}
        self.refusals = []
        self.store = Store(stale_after=30.0, started=0.0)
        self.store.subscribe(["a"])
        self.subscriptions = Subscriptions()
        self.subscriptions.want(["a"])
        self.reports = asyncio.Queue()
        signals = Signals()
        signals.connect([on(AgentReported, self.reported), on(AgentRefused, self.refused)])
        self.agents = AgentServer(
            self.store,
            self.subscriptions,
            interval=1.0,
            publish=signals.publish,
            limits=AgentLimits(**limits),
            authorizer=Authorizer(check, exists=lambda node: node in self.nodes),
        )
        self.number = 0

    def reported(self, report):
        self.reports.put_nowait(report.changed)

    def refused(self, refusal):
        self.refusals.append(refusal.code)


@pytest.fixture
async def port(pki):
    """Start a port, by default one that requires certificates."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(check=authn.by_certificate, *, ca="ca.crt", cert="server", **more):
            made = Port(check, **more)
            files = Files(pki.path(f"{cert}.crt"), pki.path(f"{cert}.key"), ca and pki.path(ca))
            certificate = load_certificates(files).current
            made.number = await made.agents.start(GrpcPort("127.0.0.1:0", certificate))
            stack.push_async_callback(made.agents.stop)
            return made

        yield start


class Agent:
    """One stream, message by message."""

    def __init__(self, stream, node):
        self.stream = stream
        self.node = node

    async def say(self, **fields):
        report = telemetry_pb2.Report(node_name=self.node, **fields)
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self.stream.write(report)

    async def introduced(self):
        await self.say()
        async with asyncio.timeout(PATIENCE):
            return await self.stream.read()

    async def ended(self):
        async with asyncio.timeout(PATIENCE):
            return await self.stream.code(), await self.stream.details()


@pytest.fixture
async def agent(pki):
    """Connect to a port with a certificate, as a node; each time a new connection."""
    async with contextlib.AsyncExitStack() as stack:

        async def connect(port, who="", node="node-a", *, token="", ca="ca.crt", sessions=None):
            pair = (pki.read(f"{who}.key"), pki.read(f"{who}.crt")) if who else ()
            secrets = grpc.ssl_channel_credentials(pki.read(ca), *pair)
            options = [("grpc.use_local_subchannel_pool", 1)]
            if sessions is not None:
                options += [
                    ("grpc.ssl_session_cache", sessions),
                    ("grpc.ssl_target_name_override", "evaluator"),  # sessions are stored by name
                ]
            channel = grpc.aio.secure_channel(f"127.0.0.1:{port.number}", secrets, options)
            await stack.enter_async_context(channel)
            metadata = (("authorization", f"Bearer {token}"),) if token else ()
            stub = telemetry_pb2_grpc.TelemetryStub(channel)
            return Agent(stub.Stream(metadata=metadata), node)

        yield connect


@pytest.mark.parametrize("who", ["node-a", "kubelet", "dns"])
async def test_node_certificate_may_report_for_its_node(port, agent, who):
    open_port = await port()
    node = await agent(open_port, who)
    subscription = await node.introduced()
    assert list(subscription.metrics) == ["a"]
    await node.say(generation=subscription.generation, full=True, indices=[0], values=[7.0])
    async with asyncio.timeout(PATIENCE):
        await open_port.reports.get()
    assert open_port.store.reading("a", "node-a").value == 7.0


async def test_resumed_tls_session_is_rejected_since_its_certificate_may_have_expired(port, agent):
    open_port, sessions = await port(cert="named"), session_cache.ssl_session_cache_lru(8)
    first = await agent(open_port, "node-a", sessions=sessions)
    assert list((await first.introduced()).metrics) == ["a"]
    resumed = await agent(open_port, "node-a", sessions=sessions)
    await resumed.say()
    code, details = await resumed.ended()
    assert code is Code.UNAUTHENTICATED
    assert "resumed" in details


async def test_certificate_of_another_node_is_rejected_and_changes_nothing(port, agent):
    open_port = await port()
    node = await agent(open_port, "node-b")
    await node.say()
    code, details = await node.ended()
    assert code is Code.PERMISSION_DENIED
    assert details == "the client certificate is for node-b, not for node node-a"
    assert open_port.refusals == ["PERMISSION_DENIED"]
    assert not open_port.store.knows("node-a")
    assert open_port.agents.connected == 0


async def test_stream_cannot_switch_to_another_node(port, agent):
    open_port = await port()
    good, bad = await agent(open_port, "node-a"), await agent(open_port, "node-b", "node-b")
    await good.introduced()
    subscription = await bad.introduced()
    bad.node = "node-a"
    await bad.say(generation=subscription.generation, full=True, indices=[0], values=[7.0])
    assert (await bad.ended())[0] is Code.INVALID_ARGUMENT
    assert not open_port.store.knows("node-a")
    assert open_port.agents.connected == 1


@pytest.mark.parametrize("who", ["", "stranger", "server-only"])
async def test_connection_without_a_client_certificate_of_the_ca_fails(port, agent, who):
    open_port = await port()
    node = await agent(open_port, who)
    await node.say()
    assert (await node.ended())[0] is Code.UNAVAILABLE
    assert open_port.agents.connected == 0


async def test_plain_text_is_rejected(port):
    open_port = await port()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{open_port.number}") as channel:
        node = Agent(telemetry_pb2_grpc.TelemetryStub(channel).Stream(), "node-a")
        await node.say()
        assert (await node.ended())[0] is Code.UNAVAILABLE


async def test_unknown_node_is_rejected(port, agent):
    open_port = await port()
    open_port.nodes.discard("node-a")
    node = await agent(open_port, "node-a")
    await node.say()
    assert await node.ended() == (Code.NOT_FOUND, "there is no node node-a in the cluster")


async def test_unauthorized_agent_cannot_learn_whether_a_node_exists(port, agent):
    open_port = await port()
    node = await agent(open_port, "node-a", "node-x")
    await node.say()
    assert (await node.ended())[0] is Code.PERMISSION_DENIED


async def test_stream_of_a_deleted_node_ends_with_its_next_report(port, agent):
    open_port = await port()
    node = await agent(open_port, "node-a")
    subscription = await node.introduced()
    open_port.nodes.discard("node-a")
    await node.say(generation=subscription.generation, full=True, indices=[0], values=[7.0])
    assert (await node.ended())[0] is Code.NOT_FOUND
    assert not open_port.store.knows("node-a")


async def test_newest_stream_of_a_node_counts(port, agent):
    open_port = await port()
    old, new = await agent(open_port, "node-a"), await agent(open_port, "kubelet")
    await old.introduced()
    subscription = await new.introduced()
    assert await old.ended() == (Code.ALREADY_EXISTS, "another stream for node node-a has begun")
    assert open_port.agents.connected == 1
    await new.say(generation=subscription.generation, full=True, indices=[0], values=[5.0])
    async with asyncio.timeout(PATIENCE):
        await open_port.reports.get()


async def test_stream_ends_at_its_maximum_age(port, agent):
    """So that an expired certificate, or the token of a deleted pod, does not live on in a stream."""
    open_port = await port(age=0.2)
    while True:
        node = await agent(open_port, "node-a")
        try:
            await node.introduced()
        except grpc.aio.AioRpcError as error:  # the connection was that old before the stream began
            if error.code() is not Code.UNAVAILABLE:
                raise
        else:
            break
    assert await node.ended() == (Code.OK, "")
    assert open_port.agents.connected == 0


async def test_agent_over_the_report_rate_is_delayed(port, agent):
    open_port = await port()
    node = await agent(open_port, "node-a")
    subscription = await node.introduced()
    begin = asyncio.get_running_loop().time()
    for _ in range(20):
        await node.say(generation=subscription.generation, full=True)
    async with asyncio.timeout(PATIENCE):
        for _ in range(20):
            await open_port.reports.get()
    # Ten are accepted at once, the others at ten a second.
    assert asyncio.get_running_loop().time() - begin > 0.9


async def test_oversized_name_is_rejected(port, agent):
    open_port = await port()
    node = await agent(open_port, "node-a", "x" * 254)
    await node.say()
    assert (await node.ended())[0] is Code.INVALID_ARGUMENT


class Reviews:
    """Tokens are the names of their nodes."""

    async def node_of(self, token, _peer):
        if token == "away":
            raise UnreviewedError("the token cannot be reviewed now: no answer")
        if not token.startswith("node-"):
            raise InvalidTokenError("the token is not valid: unknown")
        return token


@pytest.mark.parametrize(
    ("token", "code"),
    [
        ("", Code.UNAUTHENTICATED),
        ("stolen", Code.UNAUTHENTICATED),
        ("node-b", Code.PERMISSION_DENIED),
        ("away", Code.UNAVAILABLE),
    ],
)
async def test_token_of_another_node_is_rejected(port, agent, token, code):
    open_port = await port(authn.by_token(Reviews()), ca="")
    node = await agent(open_port, token=token)
    await node.say()
    found, details = await node.ended()
    assert found is code
    assert details
    assert "stolen" not in details
    assert open_port.agents.connected == 0


async def test_node_token_suffices_with_token_authentication(port, agent):
    open_port = await port(authn.by_token(Reviews()), ca="")
    assert (await (await agent(open_port, token="node-a")).introduced()).generation


def replace(pki, folder, *pairs):
    """Renew files atomically, as a kubelet does."""
    for source, target in pairs:
        shutil.copy(pki.path(source), folder / "new")
        (folder / "new").rename(folder / target)


async def test_renewed_certificates_apply_to_the_next_connection(pki, agent, tmp_path):
    names = ("server.crt", "server.key", "ca.crt")
    replace(pki, tmp_path, *zip(names, names, strict=True))
    files = Files(*(str(tmp_path / name) for name in names))
    open_port = Port(authn.by_certificate)
    secured = GrpcPort("127.0.0.1:0", load_certificates(files).current)
    open_port.number = await open_port.agents.start(secured)
    first = await agent(open_port, "node-a")
    await first.introduced()

    os.truncate(tmp_path / "server.key", 10)  # an invalid file keeps the old ones in use
    second = await agent(open_port, "node-b", "node-b")
    await second.introduced()

    replace(
        pki,
        tmp_path,
        ("renewed.key", "server.key"),
        ("renewed.crt", "server.crt"),
        ("other-ca.crt", "ca.crt"),
    )
    third = await agent(open_port, "stranger", ca="other-ca.crt")
    assert (await third.introduced()).generation
    fourth = await agent(open_port, "node-b", "node-b", ca="other-ca.crt")
    await fourth.say()
    assert (await fourth.ended())[0] is Code.UNAVAILABLE, "the old CA is no longer trusted"
    open_port.subscriptions.want(["a", "b"])
    async with asyncio.timeout(PATIENCE):
        assert len((await second.stream.read()).metrics) == 2, "an open stream is kept"
    await open_port.agents.stop()


@pytest.mark.parametrize(
    ("cert", "key", "ca", "says"),
    [
        ("none.crt", "server.key", "ca.crt", "none.crt .*--agentCert"),
        ("server.crt", "node-a.key", "ca.crt", "node-a.key .*--agentCert"),
        ("server.key", "server.key", "ca.crt", "--agentCert"),
        ("server.crt", "server.key", "server.key", "server.key .*--agentCacert"),
        ("server.crt", "server.key", "none.crt", "none.crt .*--agentCacert"),
    ],
)
def test_unusable_files_end_the_start_with_a_sentence(pki, cert, key, ca, says):
    with pytest.raises(TlsError, match=says) as refused:
        load_certificates(Files(pki.path(cert), pki.path(key), pki.path(ca)))
    assert "\n" not in str(refused.value)

"""The product end to end with TLS on the ports of agents and operators: real certificates and processes, and one agent that reports for another node."""

import dataclasses
import shutil
import ssl
import subprocess

import aiohttp
import pytest

from sandbox import manifests
from sandbox.client.client import ensure
from sandbox.client.objects import NAMESPACES, POLICIES
from sandbox.cluster import ClusterSpec
from sandbox.programs import agent_command
from tests.patience import PATIENCE
from tests.preloaded import Cluster

pytestmark = [
    pytest.mark.features("evictions", "pages"),
    pytest.mark.e2e,
    pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not on PATH"),
]

DEMO = "health-metric-demo"
NODES = ("node-a", "node-b")


def openssl(*arguments, cwd):
    subprocess.run(
        ["openssl", *arguments], cwd=cwd, check=True, capture_output=True, timeout=PATIENCE
    )


@pytest.fixture
def pki(tmp_path):
    """A CA, the evaluator's certificate, and one per node as a kubelet has it."""
    folder = tmp_path / "pki"
    folder.mkdir()
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    ca = ("-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=ca")
    openssl("req", "-x509", *key, *ca, "-addext", "keyUsage=keyCertSign", cwd=folder)
    for name, subject, san in (
        ("evaluator", "/CN=plimsoll-evaluator", "IP:127.0.0.1"),
        *((node, f"/O=system:nodes/CN=system:node:{node}", f"DNS:{node}") for node in NODES),
    ):
        request = ("-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
        openssl("req", *key, *request, "-addext", f"subjectAltName={san}", cwd=folder)
        signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
        made = ("-in", f"{name}.csr", "-out", f"{name}.crt", "-copy_extensions", "copyall")
        openssl("x509", "-req", *made, *signed, cwd=folder)
    return folder


@pytest.fixture
def shown(pki):
    """The certificate of each node's agent; its own by default."""
    return {node: node for node in NODES}


@pytest.fixture
async def cluster(pki, shown, tmp_path):
    def agent(launch):
        who = shown[launch.node]
        flags = (
            f"--evaluator.tls.ca-file={pki}/ca.crt",
            f"--evaluator.tls.cert-file={pki}/{who}.crt",
            f"--evaluator.tls.key-file={pki}/{who}.key",
        )
        return agent_command(dataclasses.replace(launch, flags=flags))

    spec = ClusterSpec(
        dir=tmp_path / "cluster",
        nodes=NODES,
        agent=agent,
        evaluator_flags=(
            f"--agentCert={pki}/evaluator.crt",
            f"--agentKey={pki}/evaluator.key",
            f"--agentCacert={pki}/ca.crt",
            *("--opsTls", f"--cert={pki}/evaluator.crt", f"--key={pki}/evaluator.key"),
        ),
    )
    async with Cluster(spec) as running:
        for name in ("00-namespace.yaml", "10-policy.yaml"):
            for obj in manifests.load(manifests.folder() / DEMO / name):
                home = {"Namespace": NAMESPACES, "TASPolicy": POLICIES}[obj["kind"]]
                await ensure(running.client, home, obj)
        yield running


@pytest.fixture
def health(cluster, pki):
    """The evaluator's reading of a node's health, from its port with TLS."""
    verified = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    verified.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on

    async def ask(node):
        url = f"{cluster.endpoints.ops}/explain/{DEMO}/demo-policy"
        assert url.startswith("https://")
        async with aiohttp.ClientSession() as session, session.get(url, ssl=verified) as response:
            found = (await response.json()).get("nodes", {})
            return found.get(node, {}).get("readings", {}).get("health_metric", {}).get("value")

    return ask


async def test_readings_use_mutual_tls_and_are_bound_to_their_node(
    cluster, shown, health, eventually
):
    for node in NODES:
        (cluster.node_metrics(node) / "text.prom").write_text("node_health_metric 0\n")

    async def known(node, value):
        return await health(node) == value

    for node in NODES:
        await eventually(lambda node=node: known(node, 0.0))

    # Node a's agent is taken over: it reports a violation for node b.
    shown["node-b"] = "node-a"
    await cluster.stop_agent("node-b")
    (cluster.node_metrics("node-b") / "text.prom").write_text("node_health_metric 2\n")
    await cluster.start_agent("node-b")
    log = cluster.dir / "logs" / "agent-node-b.log"
    await eventually(
        lambda: "the client certificate is for node-a, not for node node-b" in log.read_text()
    )
    assert await health("node-b") == 0.0

    # Node a itself continues.
    (cluster.node_metrics("node-a") / "text.prom").write_text("node_health_metric 1\n")
    await eventually(lambda: known("node-a", 1.0))

    shown["node-b"] = "node-b"
    await cluster.stop_agent("node-b")
    await cluster.start_agent("node-b")
    await eventually(lambda: known("node-b", 2.0))

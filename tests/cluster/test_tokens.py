"""Agents authenticate with ServiceAccount tokens that the API server issues and reviews."""

import shutil
import subprocess

import pytest

from evaluator.core.access.user import InvalidTokenError
from evaluator.core.kube.client import Kube
from evaluator.core.sources.agents.authn import TokenAuthenticator
from sandbox.apiserver.server import ApiServer
from sandbox.programs import AgentLaunch, agent_command
from tests.preloaded import Processes

pytestmark = pytest.mark.e2e

AUDIENCE = "plimsoll-evaluator"


@pytest.fixture
def tokens(world):
    """Request tokens of the agents' ServiceAccount."""
    if isinstance(world.plane.server, ApiServer):
        pytest.skip(
            "the sandbox has no ServiceAccount tokens, and takes everybody for its administrator"
        )

    async def make(pod, *, account="plimsoll-agent", audience=AUDIENCE):
        core = f"/api/v1/namespaces/{world.namespace}/serviceaccounts"
        meta = pod["metadata"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        spec = {"audiences": [audience], "boundObjectRef": bound, "expirationSeconds": 600}
        made = await world.client.request("POST", f"{core}/{account}/token", body={"spec": spec})
        return made["status"]["token"]

    async def account(name):
        body = {"metadata": {"name": name}}
        path = f"/api/v1/namespaces/{world.namespace}/serviceaccounts"
        await world.client.request("POST", path, body=body)

    make.account = account
    return make


async def agents_pod(world, tokens, node, name="agent", account="plimsoll-agent"):
    await tokens.account(account)
    return await world.add_pod(name, node=node, serviceAccountName=account)


async def test_token_names_its_node(world, tokens):
    node = await world.add_node("a")
    pod = await agents_pod(world, tokens, node)
    kube = await Kube.connect(str(world.plane.kubeconfig))
    account = f"{world.namespace}/plimsoll-agent"
    reviewer = TokenAuthenticator(kube, audience=AUDIENCE, account=account)
    try:
        assert await reviewer.node_of(await tokens(pod)) == node
        with pytest.raises(InvalidTokenError, match=r"not valid|audience"):
            await reviewer.node_of(await tokens(pod, audience="somebody-else"))
        with pytest.raises(InvalidTokenError, match="not valid"):
            await reviewer.node_of("made.up.token")
        other = await agents_pod(world, tokens, node, "other", "other")
        with pytest.raises(InvalidTokenError, match=r"other's, not ServiceAccount"):
            await reviewer.node_of(await tokens(other, account="other"))
        # API servers before 1.30 leave out the node, so it has to be looked up.
        found = await kube.get_pod(world.namespace, pod["metadata"]["name"])
        assert (found.metadata.uid, found.spec.node_name) == (pod["metadata"]["uid"], node)
    finally:
        await kube.close()


@pytest.fixture
def certificate(tmp_path):
    """A self-signed server certificate."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not on PATH")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    out = ("-keyout", "tls.key", "-out", "tls.crt", "-days", "2", "-subj", "/CN=evaluator")
    san = ("-addext", "subjectAltName=IP:127.0.0.1")
    subprocess.run(
        ["openssl", "req", "-x509", *key, *out, *san], cwd=tmp_path, check=True, capture_output=True
    )
    return tmp_path / "tls.crt", tmp_path / "tls.key"


async def test_agent_reports_for_the_node_of_its_token_only(world, tokens, certificate, tmp_path):
    mine, other = await world.add_node("a"), await world.add_node("b")
    pod = await agents_pod(world, tokens, mine)
    token = tmp_path / "token"
    token.write_text(await tokens(pod))
    policy = await world.add_policy("demo", dontschedule=["health Equals 1"])
    cert, key = certificate
    await world.evaluator.start(
        f"--agentCert={cert}",
        f"--agentKey={key}",
        "--agentIdentity=token",
        f"--agentServiceAccount={world.namespace}/plimsoll-agent",
    )
    (tmp_path / "health.prom").write_text("node_health 1\n")
    processes = Processes(tmp_path / "agents")

    async def start(node):
        flags = (f"--evaluator.tls.ca-file={cert}", f"--evaluator.token-file={token}")
        launch = AgentLaunch(node, tmp_path, "127.0.0.1:0", world.evaluator.agents, flags)
        await processes.start(node, agent_command(launch))

    async def refused():
        question = {
            "metadata": {
                "name": "web",
                "namespace": world.namespace,
                "labels": {"telemetry-policy": policy},
            }
        }
        return (await world.evaluator.filter(question, [mine, other])).get("FailedNodes")

    try:
        await start(mine)
        await start(other)
        liar = tmp_path / "agents" / f"{other}.log"
        said = f"the token is for node {mine}, not for {other}"
        await world.eventually(lambda: liar.exists() and said in liar.read_text())
        await world.evaluator.ready()
        assert set(await refused()) == {mine}
    finally:
        await processes.close()

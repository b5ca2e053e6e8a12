"""`kubectl plimsoll` through the API server's service proxy, with the user's kubeconfig and rights."""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import manifests
from sandbox.apiserver.server import ApiServer
from sandbox.client.client import Client, ensure
from sandbox.client.objects import CRDS, PODS, ObjectKind
from sandbox.envtest import ControlPlane, NoControlPlaneError, find
from tests.cluster.plane import Plane, sandbox_plane
from tests.eventually import eventually
from tests.security.test_ops_clients import other_address

pytestmark = [
    pytest.mark.features("pages"),
    pytest.mark.e2e,
    pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl on PATH"),
]

ADDRESS = "192.0.2.10"
"""The evaluator's pod, as the API server knows it: it proxies to no loopback address. The relay leads to the program."""


class Relay:
    """An HTTP CONNECT proxy on a Unix socket, through which the API server reaches pods: all of them are on `port`.

    `source`: the address that they see it under.
    """

    def __init__(self, folder):
        self.socket = folder / "egress"
        self.config = folder / "egress.yaml"
        self.port, self.source = 0, "127.0.0.1"
        transport = {"uds": {"udsName": str(self.socket)}}
        connection = {"proxyProtocol": "HTTPConnect", "transport": transport}
        body = {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": connection}],
        }
        self.config.write_text(json.dumps(body))

    async def answer(self, reader, writer):
        with contextlib.closing(writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            source = (self.source, 0)
            inner, outer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=source)
            with contextlib.closing(outer):
                ends = (_copy(reader, outer), _copy(inner, writer))
                tasks = [asyncio.create_task(one) for one in ends]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)


async def _copy(reader, writer):
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(1 << 16):
            writer.write(chunk)
            await writer.drain()


@pytest.fixture(scope="module")
def relay(tmp_path_factory):
    return Relay(tmp_path_factory.mktemp("egress"))


@pytest.fixture(scope="module")
def proxying(relay, tmp_path_factory):
    """A control plane that reaches pods through the relay."""
    try:
        binaries = find(os.environ)
    except NoControlPlaneError as error:
        pytest.skip(str(error))
    flag = f"--egress-selector-config-file={relay.config}"
    with ControlPlane(binaries, tmp_path_factory.mktemp("plane"), flag) as running:
        yield running


@pytest.fixture(params=["sandbox", "real"])
async def plane(request, tmp_path, relay):
    async with contextlib.AsyncExitStack() as stack:
        if request.param == "real":
            real = request.getfixturevalue("proxying")
            client = await stack.enter_async_context(Client(real.url, token=real.token, ca=real.ca))
            await stack.enter_async_context(
                await asyncio.start_unix_server(relay.answer, relay.socket)
            )
            made = Plane(real.kubeconfig, client, real)
        else:
            made = await sandbox_plane(tmp_path, stack)
        for crd in manifests.crds():
            await ensure(made.client, CRDS, crd)
        yield made


@pytest.fixture
def flags():
    """Flags of the evaluator."""
    return ()


@pytest.fixture
def secured(authority):
    """The flags of an ops port with TLS."""
    cert, key = authority.issue("ops")
    return ("--opsTls", f"--cert={cert}", f"--key={key}")


@pytest.fixture
async def installed(world, relay, flags):
    """The evaluator behind a Service, with two nodes; the policy refuses one of them."""
    sick, well = await world.add_node("sick"), await world.add_node("well")
    world.policy = await world.add_policy("demo", dontschedule=["health Equals 2"])
    world.fleet.say(sick, health=2)
    world.fleet.say(well, health=0)
    await world.start(*flags)
    relay.port, relay.source = world.evaluator._ports["ops"].number, "127.0.0.1"
    server = world.plane.server
    if isinstance(server, ApiServer):
        url = f"http://127.0.0.1:{relay.port}"
        server.serve_as(world.namespace, "plimsoll-evaluator", "ops", url)
    else:
        await _service(world)
    return sick, well


async def _service(world):
    """The Service, and the pod that stands for the evaluator."""
    await world.add_pod("evaluator-0", node="elsewhere")
    status = {"podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}], "phase": "Running"}
    await world.client.patch(
        PODS, "evaluator-0", {"status": status}, world.namespace, subresource="status"
    )
    meta = {"name": "plimsoll-evaluator", "namespace": world.namespace}
    target = {"kind": "Pod", "name": "evaluator-0", "namespace": world.namespace}
    port = {"name": "ops", "port": 8080}
    for plural, body in (
        ("services", {"spec": {"ports": [port]}}),
        (
            "endpoints",
            {"subsets": [{"addresses": [{"ip": ADDRESS, "targetRef": target}], "ports": [port]}]},
        ),
    ):
        kind = "Service" if plural == "services" else "Endpoints"
        full = {"apiVersion": "v1", "kind": kind, "metadata": meta, **body}
        await world.client.create(ObjectKind(plural, "v1"), full)


async def plimsoll(world, *words, program="kubectl-plimsoll", namespace=None):
    """(exit status, output, errors) of `kubectl plimsoll`."""
    here = Path(sys.executable).parent
    env = {**os.environ, "KUBECONFIG": str(world.plane.kubeconfig)}
    env |= {"PATH": f"{here}:{env['PATH']}", "PLIMSOLL_NAMESPACE": namespace or world.namespace}
    command = ["kubectl", "plimsoll"] if program == "kubectl-plimsoll" else [program]
    made = await asyncio.create_subprocess_exec(
        *command, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    )
    out, errors = await made.communicate()
    return made.returncode, out.decode(), errors.decode()


async def test_pod_that_is_turned_away_is_explained_with_exit_status_1(world, installed):
    sick = installed[0]
    only = {"nodeSelector": {"kubernetes.io/hostname": sick}}
    await world.add_pod("web", world.policy, **only)
    await world.add_pod("free", world.policy)
    await world.add_pod("plain")

    async def explained():
        status, out, _ = await plimsoll(world, "explain", "pod", "web", "-n", world.namespace)
        return out if status == 1 else None

    status, out, _ = await plimsoll(world, "explain", "pod", f"{world.namespace}/web")
    assert (status, "turned away by Plimsoll: unknown\n" in out) == (2, True)
    assert "why:                     kube-scheduler has reported no attempt; policy" in out
    message = f"0/1 nodes are available: 1 violating {world.policy}: health Equals 2."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    told = {"status": {"conditions": [{**condition, "message": message}]}}
    await world.client.patch(PODS, "web", told, world.namespace, subresource="status")
    out = await eventually(explained)
    assert "turned away by Plimsoll: yes\n" in out
    assert f"kube-scheduler:          {message}\n" in out
    assert f"policy {world.namespace}/{world.policy} refuses 1 of 1 feasible node" in out
    row = next(line for line in out.splitlines() if line.startswith(sick))
    assert row.split()[:2] == [sick, "refused"]
    assert "health Equals 2   2 " in row
    for name in ("free", "plain"):
        status, out, _ = await plimsoll(world, "explain", "pod", f"{world.namespace}/{name}")
        assert (status, "turned away by Plimsoll: no\n" in out) == (0, True)
    status, out, _ = await plimsoll(
        world, "explain", "pod", "web", "-n", world.namespace, "-o", "json"
    )
    assert (status, json.loads(out)["turnedAwayByPlimsoll"]) == (1, True)


async def test_pod_that_is_nominated_to_a_refused_node_is_turned_away(world, installed):
    sick = installed[0]
    await world.add_pod("web", world.policy)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    full = condition | {"message": "0/2 nodes are available: 2 Insufficient cpu."}
    told = {"status": {"conditions": [full], "nominatedNodeName": sick}}
    await world.client.patch(PODS, "web", told, world.namespace, subresource="status")
    words = ("explain", "pod", f"{world.namespace}/web")

    async def explained():
        status, out, _ = await plimsoll(world, *words)
        return out if status == 1 else None

    out = await eventually(explained)
    why = f"nominated to {sick}, which policy {world.namespace}/{world.policy} refuses"
    assert "turned away by Plimsoll: yes\n" in out
    assert f"why:                     {why}: " in out
    assert f"nominated node:          {sick}\n" in out
    status, out, _ = await plimsoll(world, *words, "-o", "json")
    page = json.loads(out)
    assert (status, page["turnedAwayByPlimsoll"], page["nominatedNode"]) == (1, True, sick)
    assert page["summary"].startswith(f"{why}: ")


async def test_no_answer_is_exit_status_2_with_the_reason(world, installed):
    status, out, errors = await plimsoll(world, "explain", "pod", f"{world.namespace}/nobody")
    assert (status, out) == (2, "")
    assert f"no pod {world.namespace}/nobody" in errors
    status, _, errors = await plimsoll(world, "status", namespace="default")
    assert status == 2
    assert 'services "plimsoll-evaluator" not found (is the evaluator' in errors
    await world.evaluator.stop()
    status, _, errors = await plimsoll(world, "status")
    assert status == 2
    assert "Traceback" not in errors


async def test_tables_show_policies_nodes_and_readings(world, installed):
    sick = installed[0]
    status, out, _ = await plimsoll(world, "status")
    assert (status, out.splitlines()[0]) == (0, "evaluator: ready")
    _, out, _ = await plimsoll(world, "policies", "-n", world.namespace)
    row = out.splitlines()[1]
    assert row.split() == [
        world.namespace,
        world.policy,
        "enforce",
        "1",
        f"({sick})",
        "0",
        "0",
        "0",
    ]
    _, out, _ = await plimsoll(world, "nodes")
    assert any(line.startswith(sick) and "dontschedule" in line for line in out.splitlines())
    _, out, _ = await plimsoll(world, "nodes", sick)
    assert "health=2" in out
    _, out, _ = await plimsoll(world, "explain", "policy", world.policy, "-n", world.namespace)
    assert f"health Equals 2   1 ({sick})" in out
    assert "\x1b" not in out, "colours only on a terminal"


class TestTls:
    @pytest.fixture
    def flags(self, secured):
        return secured

    async def test_port_with_tls_is_read_over_https(self, world, installed):
        status, out, errors = await plimsoll(world, "status")
        assert (status, out.splitlines()[0], errors) == (0, "evaluator: ready", "")


class TestAuthorization:
    @pytest.fixture
    def flags(self, secured):
        return (*secured, "--opsAuthorize")

    async def test_port_with_authorization_is_an_error_that_names_the_way(self, world, installed):
        status, _, errors = await plimsoll(world, "status")
        assert status == 2
        assert "a bearer token is required" in errors
        assert "docs/kubectl-plugin.md" in errors


async def test_service_proxy_reads_pages_once_its_network_may(world, installed, relay):
    """The evaluator's refusal names the network; it is none of RBAC, and none of a Service or a token."""
    if isinstance(world.plane.server, ApiServer):
        pytest.skip("the sandbox reaches the evaluator on loopback")
    relay.source = other_address()
    status, out, errors = await plimsoll(world, "status")
    assert (status, out) == (2, "")
    network = f"{relay.source}/32"
    assert f"not for {relay.source}" in errors
    assert f"--pagesFrom={network}" in errors
    assert "the right to create pods/portforward" in errors
    assert "services/proxy" not in errors
    await world.evaluator.stop()
    await world.start(f"--pagesFrom={network}")
    relay.port = world.evaluator._ports["ops"].number
    status, out, errors = await plimsoll(world, "status")
    assert status == 0, errors
    assert out.splitlines()[0] == "evaluator: ready"


async def test_user_without_the_right_is_told_which_one_is_missing(world, installed):
    if isinstance(world.plane.server, ApiServer):
        pytest.skip("the sandbox has no authorization")
    status, _, errors = await plimsoll(world, "status", "--as=somebody")
    assert status == 2
    assert "you need the right to get services/proxy" in errors
    # The role of docs/kubectl-plugin.md.
    proxied = {
        "apiGroups": [""],
        "resources": ["services/proxy"],
        "resourceNames": ["http:plimsoll-evaluator:ops"],
        "verbs": ["get"],
    }
    api = "rbac.authorization.k8s.io/v1"
    meta = {"name": "plimsoll-explain", "namespace": world.namespace}
    role = {"apiVersion": api, "kind": "Role", "metadata": meta, "rules": [proxied]}
    binding = {
        "apiVersion": api,
        "kind": "RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": api[:-3], "kind": "Role", "name": "plimsoll-explain"},
        "subjects": [{"apiGroup": api[:-3], "kind": "User", "name": "somebody"}],
    }
    await world.client.create(ObjectKind("roles", api), role)
    await world.client.create(ObjectKind("rolebindings", api), binding)

    async def allowed():
        return (await plimsoll(world, "status", "--as=somebody"))[0] == 0

    await eventually(allowed)


async def test_completion_proposes_names_of_the_cluster(world, installed):
    sick = installed[0]
    complete = "kubectl_complete-plimsoll"
    for words, found in (
        (["ex"], ["explain"]),
        (["explain", "no"], ["node"]),
        (["nodes", sick[:3]], [sick]),
        (["explain", "policy", "-n", world.namespace, ""], [world.policy]),
        (["policies", "-o", "y"], ["yaml"]),
        (["policies", "-n", world.namespace[:-1]], [world.namespace]),
    ):
        status, out, errors = await plimsoll(world, *words, program=complete)
        assert (status, out.splitlines(), errors) == (0, [*found, ":4"], "")
    status, out, errors = await plimsoll(world, "nodes", "", program=complete, namespace="default")
    assert (status, out, errors) == (0, ":4\n", "")

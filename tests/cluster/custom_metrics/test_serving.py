"""The evaluator serves the custom metrics API behind the aggregation layer of each API server."""

import asyncio
import base64
import json
import os
import sys

import aiohttp
import pytest

from sandbox.client.client import ApiError, Client
from sandbox.client.objects import ObjectKind
from sandbox.pki import CertificateAuthority
from sandbox.processes import HeldPort
from tests.cluster.custom_metrics.aggregation import GROUP, VERSIONS, Balancer

pytestmark = [pytest.mark.e2e, pytest.mark.features("custom_metrics")]


@pytest.fixture
async def served(world, api):
    """The API with two nodes and the metric `load` of a policy, available."""
    a, b = await world.add_node("a", zone="one"), await world.add_node("b", zone="two")
    await world.add_policy("p", dontschedule=["load GreaterThan 100"])
    world.fleet.say(a, load=1.5)
    world.fleet.say(b, load=0.25)
    await world.start(*api.flags())
    await api.register()
    await api.condition()
    return a, b


async def kubectl(world, *arguments):
    process = await asyncio.create_subprocess_exec(
        *("kubectl", f"--kubeconfig={world.plane.kubeconfig}", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_kubectl_gets_one_node_all_nodes_and_pods(world, api, served):
    a, b = served
    await world.add_pod("x", node=a)
    await world.add_pod("waiting")
    assert await api.values("/nodes/*/load") == {a: "1500m", b: "250m"}
    assert await api.values("/nodes/*/load?labelSelector=zone%3Dtwo") == {b: "250m"}
    assert await api.values(f"/namespaces/{world.namespace}/pods/*/load") == {"x": "1500m"}
    for version in VERSIONS:
        status, out, err = await kubectl(
            world, "get", "--raw", f"/apis/{GROUP}/{version}/namespaces/x/nodes/{a}/load"
        )
        assert status == 0, err
        (item,) = json.loads(out)["items"]
        assert (item["describedObject"]["name"], item["value"]) == (a, "1500m")
    status, _, err = await kubectl(world, "get", "--raw", f"/apis/{GROUP}/v1beta2/nodes/*/none")
    assert (status, "the server could not find" in err) == (1, True), err


MASTER = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}


async def test_rotated_front_proxy_ca_is_loaded_while_running(world, api, served):
    """Requests through the API server go on, and a certificate of the new CA is accepted at the evaluator's own port."""
    assert await api.ask("/nodes/*/load", headers=MASTER) == 401
    pair = api.rotate(f"rotated-{world.suffix}")

    async def accepted():
        assert await api.values("/nodes/*/load")
        try:
            return await api.ask("/nodes/*/load", headers=MASTER, pair=pair) == 200
        except (aiohttp.ClientError, OSError):
            return False  # the handshake fails while the CA is unknown

    await world.eventually(accepted)
    assert await api.values("/nodes/*/load")
    await api.condition()


async def test_token_needs_a_permission_for_the_metric(real, world, api, served):
    """Through the API server, and at the evaluator's own port, where the evaluator asks the API server."""
    account, role = f"reader-{world.suffix}", f"load-{world.suffix}"
    space = f"/api/v1/namespaces/{world.namespace}/serviceaccounts"
    await world.client.request("POST", space, body={"metadata": {"name": account}})
    made = await world.client.request("POST", f"{space}/{account}/token", body={"spec": {}})
    token = {"Authorization": f"Bearer {made['status']['token']}"}
    through = Client(
        world.plane.server.url, token=made["status"]["token"], ca=world.plane.server.ca
    )
    assert await api.ask("/nodes/*/other", headers=token) == 403
    assert await api.ask("", headers=token) == 200, "discovery needs no permission"
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": [GROUP], "resources": ["nodes/load"], "verbs": ["get"]}
    body = {"metadata": {"name": role}, "rules": [rule]}
    async with through:
        with pytest.raises(ApiError) as refused:
            await through.request("GET", f"/apis/{GROUP}/v1beta2/nodes/*/load")
        assert refused.value.status == 403
        await world.client.request("POST", f"{rbac}/clusterroles", body=body)
        subject = {"kind": "ServiceAccount", "name": account, "namespace": world.namespace}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        binding = {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]}
        await world.client.request("POST", f"{rbac}/clusterrolebindings", body=binding)

        async def permitted():
            try:
                found = await through.request("GET", f"/apis/{GROUP}/v1beta2/nodes/*/load")
            except ApiError as error:
                assert error.status == 403  # noqa: PT017 (denials are cached for 10 s)
                return None
            return found["items"]

        assert len(await world.eventually(permitted)) == 2
    assert await api.ask("/nodes/*/load", headers=token) == 200


async def test_requests_go_on_when_a_replica_is_killed(world, api, tmp_path):
    a = await world.add_node("a")
    await world.add_policy("p", dontschedule=["load GreaterThan 100"])
    other = type(world.evaluator)(world.plane.kubeconfig, tmp_path / "other-logs")
    fleet = type(world.fleet)(other.agents)
    second = HeldPort()
    balancer = Balancer(api.port.number, second.number)
    try:
        for reporting in (world.fleet, fleet):
            reporting.say(a, load=1)
        await asyncio.gather(world.start(*api.flags()), other.start(*api.flags(second.number)))
        await other.ready()
        await balancer.start()
        await api.register(balancer.port)
        await api.condition()
        assert await api.values("/nodes/*/load") == {a: "1"}
        answers, lost, killed = [], [], False

        async def load():
            while True:
                begun_after = killed
                try:
                    answers.append((await api.get("/nodes/*/load"))["items"][0]["value"])
                except ApiError:
                    lost.append(begun_after)

        async with asyncio.TaskGroup() as clients:
            asking = [clients.create_task(load()) for _ in range(4)]
            await world.eventually(lambda: len(answers) > 20)
            assert not lost
            await world.evaluator.stop(kill=True)
            killed, before = True, len(answers)
            await world.eventually(lambda: len(answers) > before + 40)
            for task in asking:
                task.cancel()
        assert {*answers} == {"1"}
        # Afterwards, only the next request on each connection of the killed replica may be lost.
        assert lost.count(True) <= len(asking)
        await api.condition()
    finally:
        await balancer.close()
        await fleet.close()
        await other.close()
        second.close()


async def test_printed_command_repairs_a_wrong_ca(real, world, api):
    """`check-apiservice` names the cause of failing requests, and the command to repair it.

    kube-apiserver 1.33 and older ones keep the APIServices Available, since that check of theirs does not verify certificates.
    """
    await world.start(*api.flags())
    other = CertificateAuthority(api.ca.folder.parent / "other-ca", "other")
    await api.register(ca=other)

    async def unavailable():
        try:
            await api.get("/nodes/*/load")
        except ApiError as error:
            return error.status == 503
        return False

    await world.eventually(unavailable)
    meta = {"name": "tls", "namespace": world.namespace}
    data = {"ca.crt": base64.b64encode(api.ca.file.read_bytes()).decode()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}
    await world.client.create(ObjectKind("secrets"), secret)
    checking = (
        *(sys.executable, "-P", "-m", "evaluator", "check-apiservice"),
        *(f"--service={world.namespace}/{api.name}", "--secret=tls"),
    )
    status, out = await run(world, *checking)
    assert (status, out.count("caBundle is not the CA in the secret")) == (1, 2), out
    commands = [line.removeprefix("  - ") for line in out.splitlines() if "kubectl patch" in line]
    for command in commands:
        status, out = await run(world, "bash", "-c", command)
        assert status == 0, out
    await api.condition()
    status, out = await run(world, *checking)
    assert (status, out.count(", available")) == (0, 2), out


async def run(world, *command):
    """Exit status and output of a command as the administrator."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "KUBECONFIG": str(world.plane.kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return process.returncode, out.decode()

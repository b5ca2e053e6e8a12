"""The evaluator serves the custom metrics API behind the aggregation layer of each API server."""

import asyncio
import base64
import contextlib
import json
import os
import ssl
import sys

import aiohttp
import pytest

from sandbox.apiserver.server import ApiServer
from sandbox.client.client import ApiError, Client
from sandbox.client.objects import DEPLOYMENTS, NAMESPACES, ObjectKind
from sandbox.controllers.kubelet import Kubelet
from sandbox.envtest import ControlPlane, NoControlPlaneError
from sandbox.pki import CertificateAuthority
from sandbox.processes import HeldPort
from sandbox.programs import AgentLaunch, agent_command
from tests.preloaded import Processes

pytestmark = pytest.mark.e2e

SERVICES = ObjectKind("services")
API_SERVICES = ObjectKind("apiservices", "apiregistration.k8s.io/v1", namespaced=False)
AUTOSCALERS = ObjectKind("horizontalpodautoscalers", "autoscaling/v2")
GROUP = "custom.metrics.k8s.io"
VERSIONS = ("v1beta1", "v1beta2")
CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "horizontal-pod-autoscaler-controller",
    "namespace-controller",
)
EAGER = (
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-downscale-stabilization=1s",
)


class Balancer:
    """A stand-in for kube-proxy: each new connection goes to the next replica that accepts it."""

    def __init__(self, *ports):
        self._ports = [*ports]
        self._server = None
        self.port = 0

    async def start(self):
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self):
        self._server.close()
        await self._server.wait_closed()

    async def _relay(self, reader, writer):
        for _ in self._ports:
            self._ports.append(self._ports.pop(0))
            with contextlib.suppress(OSError):
                onward = await asyncio.open_connection("127.0.0.1", self._ports[0])
                break
        else:
            writer.transport.abort()
            return
        await asyncio.gather(_copy(reader, onward[1]), _copy(onward[0], writer))


async def _copy(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


class Api:
    """The registered API: its certificate, its port, and requests to it through the API server."""

    def __init__(self, world, folder):
        self.world = world
        self.name = "metrics"
        self.ca = CertificateAuthority(folder / "serving")
        self.pair = self.ca.issue("metrics", san=f"DNS:{self.name}.{world.namespace}.svc")
        self.port = HeldPort()
        self._front_proxies = folder / "front-proxies"

    def flags(self, port=None):
        cert, key = self.pair
        number = port or self.port.number
        return (f"--customMetricsPort={number}", f"--cert={cert}", f"--key={key}")

    def rotate(self, name):
        """Give the API server's front proxy a certificate of a new CA, and return it."""
        if isinstance(self.world.plane.server, ControlPlane):
            return self.world.plane.server.rotate_front_proxy(name)
        ca = CertificateAuthority(self._front_proxies / name, name)
        pair = ca.issue("front-proxy-client")
        self.world.plane.server.use_front_proxy(ca.file, pair)
        return pair

    async def register(self, port=None, ca=None):
        """Create Service and APIServices whose requests reach a port of this machine; `ca`: another CA to trust."""
        number = port or self.port.number
        bundle = (ca or self.ca).file.read_bytes()
        meta = {"name": self.name, "namespace": self.world.namespace}
        spec = {
            "type": "ExternalName",
            "externalName": "localhost",
            "ports": [{"port": number, "name": "https"}],
        }
        service = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
        await self.world.client.create(SERVICES, service)
        if isinstance(self.world.plane.server, ApiServer):
            url = f"https://127.0.0.1:{number}"
            self.world.plane.server.serve_as(self.world.namespace, self.name, "https", url)
        for priority, version in enumerate(VERSIONS, 1):
            spec = {
                "group": GROUP,
                "version": version,
                "service": {**meta, "port": number},
                "caBundle": base64.b64encode(bundle).decode(),
                "groupPriorityMinimum": 100,
                "versionPriority": 100 * priority,
            }
            await self.world.client.create(
                API_SERVICES,
                {
                    "apiVersion": API_SERVICES.api_version,
                    "kind": "APIService",
                    "metadata": {"name": f"{version}.{GROUP}"},
                    "spec": spec,
                },
            )

    async def unregister(self):
        for version in VERSIONS:
            with contextlib.suppress(ApiError):
                await self.world.client.delete(API_SERVICES, f"{version}.{GROUP}")

    async def condition(self, status="True"):
        """Wait until both versions have this status of Available; return the last message."""
        message = ""
        for version in VERSIONS:

            async def agrees(name=f"{version}.{GROUP}"):
                found = (await self.world.client.get(API_SERVICES, name)).get("status") or {}
                for one in found.get("conditions") or ():
                    if one["type"] == "Available" and one["status"] == status:
                        return one["message"]
                return None

            try:
                message = await self.world.eventually(agrees)
            except TimeoutError:
                found = await self.world.client.get(API_SERVICES, f"{version}.{GROUP}")
                log = self.world.evaluator.log()
                raise AssertionError(f"{found.get('status')}{log}") from None
        return message

    async def get(self, path, version="v1beta2"):
        return await self.world.client.request("GET", f"/apis/{GROUP}/{version}{path}")

    async def ask(self, path, *, headers, pair=None, port=None):
        """The status of a request to the evaluator's own port, with an optional client certificate."""
        context = ssl.create_default_context(cafile=self.ca.file)
        if pair:
            context.load_cert_chain(*pair)
        name = f"{self.name}.{self.world.namespace}.svc"
        async with (
            aiohttp.ClientSession() as session,
            session.get(
                f"https://127.0.0.1:{port or self.port.number}/apis/{GROUP}/v1beta2{path}",
                headers=headers,
                ssl=context,
                server_hostname=name,
            ) as response,
        ):
            return response.status

    async def values(self, path, **more):
        """Object -> value of a list of metrics, once it can be had."""

        async def answered():
            try:
                items = (await self.get(path, **more))["items"]
            except ApiError:
                return None
            return {item["describedObject"]["name"]: item["value"] for item in items}

        return await self.world.eventually(answered)


@pytest.fixture
def real(plane):
    if not isinstance(plane.server, ControlPlane):
        pytest.skip("the sandbox has no tokens, RBAC, autoscalers or x509 messages of Go")


@pytest.fixture
async def api(world, tmp_path):
    if world.plane.server is None:
        pytest.skip("a cluster's aggregation layer does not reach this machine")
    made = Api(world, tmp_path)
    made.rotate(f"front-proxy-ca-{world.suffix}")
    yield made
    await made.unregister()
    made.port.close()


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
        answered = asyncio.Queue()

        async def load():
            while True:
                answered.put_nowait((await api.get("/nodes/*/load"))["items"][0]["value"])

        asking = [asyncio.create_task(load()) for _ in range(4)]
        for _ in range(20):
            assert await answered.get() == "1"
        await world.evaluator.stop(kill=True)
        after = [task for task in asking if not task.done()]
        for _ in range(40):
            assert await answered.get() == "1"
        for task in asking:
            task.cancel()
        ended = await asyncio.gather(*asking, return_exceptions=True)
        # A request on a connection of the killed replica may be lost; no other.
        assert all(isinstance(one, asyncio.CancelledError | ApiError) for one in ended), ended
        assert after
        await api.condition()
    finally:
        await balancer.close()
        await fleet.close()
        await other.close()
        second.close()


async def test_printed_command_repairs_a_wrong_ca(real, world, api):
    """`check-apiservice` names the cause of kube-apiserver's x509 error, and the command to repair it."""
    await world.start(*api.flags())
    other = CertificateAuthority(api.ca.folder.parent / "other-ca", "other")
    await api.register(ca=other)
    assert "x509: certificate signed by unknown authority" in await api.condition("False")
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


@pytest.fixture
async def controllers(real, world):
    """kube-controller-manager with what Deployments, autoscalers and namespaces need."""
    try:
        with world.plane.server.controllers(*CONTROLLERS, flags=EAGER) as is_up:
            await world.eventually(is_up)
            yield
    except NoControlPlaneError as error:
        pytest.skip(str(error))


def deployment(name, node):
    labels = {"app": name}
    pod = {"nodeName": node, "terminationGracePeriodSeconds": 0}
    pod["containers"] = [{"name": "c", "image": "none"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def autoscaler(name, metric):
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    at_once = {"stabilizationWindowSeconds": 0}
    return {
        "apiVersion": AUTOSCALERS.api_version,
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": reference,
            "minReplicas": 1,
            "maxReplicas": 3,
            "metrics": [metric],
            "behavior": {"scaleUp": at_once, "scaleDown": at_once},
        },
    }


async def test_autoscalers_follow_a_prom_file(real, world, api, controllers, tmp_path):
    """Of type Object on a Node, and of type Pods: the value of the node on which each pod runs."""
    node = await world.add_node("a")
    await world.add_policy("p", dontschedule=["demand GreaterThan 100"])
    file = tmp_path / "demand.prom"
    file.write_text("node_demand 1\n")
    programs = Processes(tmp_path / "agents")
    kubelet = asyncio.create_task(Kubelet(world.client, [node]).run())
    described = {"apiVersion": "v1", "kind": "Node", "name": node}
    metric = {"name": "demand"}
    target = {"type": "AverageValue", "averageValue": "1"}
    metrics = {
        "object": {
            "type": "Object",
            "object": {"describedObject": described, "metric": metric, "target": target},
        },
        "pods": {"type": "Pods", "pods": {"metric": metric, "target": target}},
    }
    try:
        await world.evaluator.start(*api.flags())
        launch = AgentLaunch(node, tmp_path, "127.0.0.1:0", world.evaluator.agents)
        await programs.start("agent", agent_command(launch))
        await world.evaluator.ready()
        await api.register()
        await api.condition()
        assert await api.values("/nodes/*/demand") == {node: "1"}
        for name, of in metrics.items():
            for kind, body in (
                (DEPLOYMENTS, deployment(name, node)),
                (AUTOSCALERS, autoscaler(name, of)),
            ):
                body["metadata"]["namespace"] = world.namespace
                await world.client.create(kind, body)

        async def scaled(count):
            found = (await world.client.list(DEPLOYMENTS, world.namespace)).items
            return len(found) == 2 and all(
                one.get("status", {}).get("readyReplicas") == count for one in found
            )

        await world.eventually(lambda: scaled(1))
        file.write_text("node_demand 3\n")
        await world.eventually(lambda: scaled(3))
        file.write_text("node_demand 0\n")
        await world.eventually(lambda: scaled(1))
    finally:
        kubelet.cancel()
        await asyncio.wait([kubelet])
        await programs.close()


async def gone(world, name):
    try:
        await world.client.get(NAMESPACES, name)
    except ApiError as error:
        return error.status == 404
    return False


async def test_namespaces_are_deleted_unless_an_apiservice_is_down(real, world, api, controllers):
    """Without the component, an evaluator that is down stalls nothing; with it, deleting the APIServices ends the stall."""
    for name in ("off", "stalled"):
        await world.add_namespace(f"{name}-{world.suffix}")
    await world.client.delete(NAMESPACES, f"off-{world.suffix}")
    await world.eventually(lambda: gone(world, f"off-{world.suffix}"))
    await api.register()
    assert "failing or missing response" in await api.condition("False")
    await world.client.delete(NAMESPACES, f"stalled-{world.suffix}")

    async def stalled():
        found = await world.client.get(NAMESPACES, f"stalled-{world.suffix}")
        conditions = found["status"].get("conditions") or ()
        return any(
            one["type"] == "NamespaceDeletionDiscoveryFailure" and one["status"] == "True"
            for one in conditions
        )

    await world.eventually(stalled)
    await api.unregister()
    await world.eventually(lambda: gone(world, f"stalled-{world.suffix}"))

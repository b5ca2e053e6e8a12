"""Pods get the gate at creation, by the evaluator's webhook or the admission policy, on a real API server."""

import asyncio
import re
from pathlib import Path

import pytest
import yaml

from evaluator.config import Settings
from evaluator.features.gangs import webhook
from evaluator.features.gangs.core.controllers import KINDS
from evaluator.features.gangs.core.membership import ADMITTED, GATE
from plimsoll import flags
from plimsoll.commandline import Parser
from sandbox.client.client import ApiError, Client, ensure
from sandbox.client.objects import EVENTS, NAMESPACES, NODES, PODS
from sandbox.controllers.nodes import node_object
from sandbox.processes import HeldPort
from sandbox.programs import EvaluatorLaunch, evaluator_command
from tests.deploy.test_rbac import CONTROLLERS
from tests.patience import PATIENCE
from tests.preloaded import Processes

ROOT = Path(__file__).parents[2]
README = ROOT / "deploy" / "gangs" / "README.md"
BLOCK = re.compile(r"<!-- tested: tests/deploy/test_gangs.py -->\n *```sh\n(.*?)```", re.DOTALL)
EVALUATOR = "plimsoll-evaluator"
OPTED_IN = {"plimsoll.io/gangs": "enabled"}
FOREIGN = {"name": "example.com/quota"}
OURS = {"name": GATE}
GANG = {"podGroup": "train", "minAvailable": "4"}
OLDER = "pod-group.scheduling.sigs.k8s.io"


def named(objects, kind, name=EVALUATOR):
    (found,) = [o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    return found


@pytest.fixture
def serving(with_components):
    """The evaluator with the webhook's port."""
    return with_components("core", "gangs", "gangs-webhook")


@pytest.fixture
def asking(built):
    """The webhook's registration."""
    (only,) = named(built("gangs/webhook"), "MutatingWebhookConfiguration", "plimsoll-gangs")[
        "webhooks"
    ]
    return only


@pytest.fixture
def container(serving):
    (found,) = named(serving, "Deployment")["spec"]["template"]["spec"]["containers"]
    return found


@pytest.fixture
def settings(container):
    parser = Parser(EVALUATOR, about="", examples="", usage="")
    return flags.parse_settings(Settings, parser, argv=container["args"], env={})


class TestGrouping:
    def test_evaluator_accepts_its_flags_and_lifts_its_own_gates(self, settings):
        assert settings.mistakes() == []
        assert settings.gangs

    def test_webhook_service_targets_the_listening_port(self, asking, serving, container, settings):
        asked = asking["clientConfig"]["service"]
        assert (asked["namespace"], asked["path"]) == ("plimsoll", webhook.PATH)
        service = named(serving, "Service", asked["name"])["spec"]
        (port,) = [one for one in service["ports"] if one["port"] == asked["port"]]
        (listening,) = [one for one in container["ports"] if one["name"] == port["targetPort"]]
        assert listening["containerPort"] == settings.gang_webhook_port

    def test_webhook_service_name_is_in_the_certificate_whose_ca_is_injected(
        self, asking, built, container
    ):
        config = named(built("gangs/webhook"), "MutatingWebhookConfiguration", "plimsoll-gangs")
        namespace, name = config["metadata"]["annotations"]["cert-manager.io/inject-ca-from"].split(
            "/"
        )
        certificate = named(built("certificates"), "Certificate", name)
        assert certificate["metadata"]["namespace"] == namespace
        service = asking["clientConfig"]["service"]
        assert f"{service['name']}.{service['namespace']}.svc" in certificate["spec"]["dnsNames"]

    def test_agents_are_not_routed_to_the_webhook(self, serving):
        names = [
            one["name"] for one in named(serving, "Service", f"{EVALUATOR}-agents")["spec"]["ports"]
        ]
        assert names == ["agents"]

    def test_every_port_has_a_network_policy(self, serving, container):
        rules = named(serving, "NetworkPolicy")["spec"]["ingress"]
        admitted = {port["port"]: rule.get("from") for rule in rules for port in rule["ports"]}
        assert admitted.keys() == {port["name"] for port in container["ports"]}
        assert admitted["gangs"] is None, "the API server is on the host's network"

    @pytest.mark.parametrize("last", [False, True])
    def test_metrics_can_still_be_limited_to_prometheus(self, with_components, last):
        """In any order of components."""
        ours, closed = ["gangs", "gangs-webhook"], ["closed-metrics"]
        objects = with_components("core", *(ours + closed if last else closed + ours))
        rules = named(objects, "NetworkPolicy")["spec"]["ingress"]
        admitted = {port["port"]: rule.get("from") for rule in rules for port in rule["ports"]}
        assert admitted["gangs"] is None
        for peer in admitted["ops"]:
            assert "monitoring" in str(peer["namespaceSelector"])

    def test_roles_are_tested_with_every_kind_of_controller(self):
        assert {(version, resource) for (version, _), resource in KINDS.items()} == {*CONTROLLERS}

    def test_nothing_listens_without_the_component(self, with_components):
        objects = with_components("core", "gangs")
        (plain,) = named(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
        assert "gangs" not in {port["name"] for port in plain["ports"]}

    def test_webhook_and_policy_select_the_same_namespaces(self, asking, built):
        objects = built("gangs/policy")
        binding = named(objects, "MutatingAdmissionPolicyBinding", "plimsoll-gangs")["spec"]
        policy = named(objects, "MutatingAdmissionPolicy", "plimsoll-gangs")["spec"]
        selector = {"matchLabels": OPTED_IN}
        assert asking["namespaceSelector"] == selector
        assert binding["matchResources"] == {"namespaceSelector": selector}
        assert asking["rules"] == policy["matchConstraints"]["resourceRules"]

    def test_webhook_never_depends_on_itself(self, built):
        """The evaluator's own namespace has gates disabled."""
        namespace = named(built("core"), "Namespace", "plimsoll")
        assert not OPTED_IN.items() <= namespace["metadata"]["labels"].items()


class Cluster:
    """The objects an administrator sees."""

    def __init__(self, client, run):
        self.client = client
        self.run = run

    async def create(self, labels, namespace="research", *, name="train-0", dry=True, **spec):
        """The pod as the API server stores it, or would with a dry run."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {
                "automountServiceAccountToken": False,
                "containers": [{"name": "c", "image": "none"}],
                **spec,
            },
        }
        return await self.client.request(
            "POST", PODS.path(namespace), body=pod, params={"dryRun": "All"} if dry else None
        )

    async def gates(self, labels, namespace="research", **spec):
        return (await self.create(labels, namespace, **spec))["spec"].get("schedulingGates", [])

    async def event(self, reason, pod):
        """Wait for an event on a pod."""
        async with asyncio.timeout(PATIENCE):
            while True:
                events = await self.client.list(EVENTS, "research")
                told = {(one["reason"], one["involvedObject"]["name"]) for one in events.items}
                if (reason, pod) in told:
                    return
                await asyncio.sleep(0.1)

    async def let_go(self, name):
        """Wait until a pod has no gates."""
        async with asyncio.timeout(PATIENCE):
            while True:
                pod = await self.client.get(PODS, name, "research")
                if not pod["spec"].get("schedulingGates"):
                    assert ADMITTED in pod["metadata"]["annotations"]
                    return
                await asyncio.sleep(0.1)

    async def until(self, gates):
        """Webhook registration takes effect after a moment, and so does a program's start."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    if await self.gates(GANG) == gates:
                        return
                except ApiError as error:
                    if "failed calling webhook" not in error.message:
                        raise
                await asyncio.sleep(0.1)


@pytest.fixture
async def cluster(control_plane, run):
    """With a namespace with gates enabled, and one without."""
    async with Client(
        control_plane.url, token=control_plane.token, ca=control_plane.ca
    ) as connected:
        for name, labels in (("research", OPTED_IN), ("elsewhere", {}), ("plimsoll", {})):
            meta = {"name": name, "labels": labels}
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
            await ensure(connected, NAMESPACES, body)
        yield Cluster(connected, run)


@pytest.fixture
async def by_policy(cluster):
    cluster.run("kubectl", "apply", "-k", "deploy/gangs/policy")
    await cluster.until([OURS])
    yield cluster
    cluster.run("kubectl", "delete", "-k", "deploy/gangs/policy")
    await cluster.until([])


@pytest.fixture
async def evaluator(control_plane, made, tmp_path):
    """Start the evaluator with certificates made by hand; return the port of its webhook."""
    programs = Processes(tmp_path / "logs")
    ports = [HeldPort() for _ in range(4)]

    async def start():
        launch = EvaluatorLaunch(
            kubeconfig=control_plane.kubeconfig,
            extender_port=ports[0].number,
            agent_port=ports[1].number,
            ops_port=ports[2].number,
            sync_period=1.0,
            flags=(
                "--gangs",
                f"--gangWebhookPort={ports[3].number}",
                f"--cert={made / 'extender.crt'}",
                f"--key={made / 'extender.key'}",
            ),
        )
        await programs.start("evaluator", evaluator_command(launch))
        return ports[3].number

    start.stop = lambda: programs.stop("evaluator")
    yield start
    await programs.close()
    for port in ports:
        port.close()


@pytest.fixture
async def by_webhook(cluster, evaluator, made):
    """As in README.md. Service networking is missing here: the service's name resolves to loopback."""
    port = await evaluator()
    meta = {"name": EVALUATOR, "namespace": "plimsoll"}
    spec = {"type": "ExternalName", "externalName": "localhost"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
    cluster.run("kubectl", "apply", "-f", "-", given=yaml.safe_dump(service))
    cluster.run("kubectl", "apply", "-k", str(made))
    for block in BLOCK.findall(README.read_text()):
        cluster.run("bash", "-euo", "pipefail", "-c", block)
    path = "/webhooks/0/clientConfig/service/port"
    patch = f'[{{"op": "replace", "path": "{path}", "value": {port}}}]'
    config = ("mutatingwebhookconfiguration", "plimsoll-gangs")
    cluster.run("kubectl", "patch", *config, "--type=json", "-p", patch)
    await cluster.until([OURS])
    cluster.stop = evaluator.stop
    yield cluster
    cluster.run("kubectl", "delete", "-k", "deploy/gangs/webhook")
    await cluster.until([])


CASES = [
    (GANG, {}, [OURS]),
    ({**GANG, "groupPriority": "7"}, {}, [OURS]),
    ({"groupPriority": "7"}, {}, [OURS]),
    ({"groupPriority": "high"}, {}, [OURS]),
    ({"podGroup": "train", "minAvailable": "0002"}, {}, [OURS]),
    ({"podGroup": "train", "minAvailable": "10"}, {}, [OURS]),
    (GANG, {"schedulingGates": [FOREIGN]}, [FOREIGN, OURS]),
    (GANG, {"schedulingGates": [OURS]}, [OURS]),
    (GANG, {"schedulingGates": [OURS, FOREIGN]}, [OURS, FOREIGN]),
    (GANG, {"nodeName": "node-a"}, []),
    ({}, {}, []),
    ({"app": "web"}, {"schedulingGates": [FOREIGN]}, [FOREIGN]),
    ({"scheduling.x-k8s.io/pod-group": "train", "minAvailable": "2"}, {}, [OURS]),
    ({f"{OLDER}/name": "train", f"{OLDER}/min-available": "3"}, {}, [OURS]),
    ({OLDER: "train", f"{OLDER}/min-available": "1"}, {}, []),
    ({"scheduling.x-k8s.io/pod-group": "train"}, {}, []),
    ({"podGroup": "train"}, {}, []),
    ({"minAvailable": "4"}, {}, []),
    ({"podGroup": "", "minAvailable": "4"}, {}, []),
    ({"podGroup": "train", "minAvailable": ""}, {}, []),
    ({"podGroup": "train", "minAvailable": "1"}, {}, []),
    ({"podGroup": "train", "minAvailable": "0001"}, {}, []),
    ({"podGroup": "train", "minAvailable": "four"}, {}, []),
    ({"podGroup": "train", "minAvailable": "4.0"}, {}, []),
    ({"podGroup": "train", "minAvailable": "1_000"}, {}, []),
    ({"podGroup": "train", "minAvailable": "9" * 40}, {}, []),
]
"""Labels and spec of a pod, and its resulting gates."""


async def holds_whom_it_should(cluster):
    for labels, spec, gates in CASES:
        assert await cluster.gates(labels, **spec) == gates, (labels, spec)
    assert await cluster.gates(GANG, "elsewhere") == []


async def changes_nothing_else(cluster):
    """Also for a pod with fields that a merge could damage."""
    ports = [{"containerPort": 80, "name": "a"}, {"containerPort": 80, "name": "b"}]
    variables = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    containers = [{"name": "c", "image": "none", "ports": ports, "env": variables}]
    pods = [
        await cluster.create(GANG, ns, containers=containers) for ns in ("research", "elsewhere")
    ]
    held, free = (pod["spec"] for pod in pods)
    assert held.pop("schedulingGates") == [OURS]
    assert held == free


@pytest.mark.e2e
class TestAdmissionPolicy:
    async def test_exactly_the_gang_pods_are_gated(self, by_policy):
        await holds_whom_it_should(by_policy)

    async def test_webhook_changes_nothing_but_the_gate(self, by_policy):
        await changes_nothing_else(by_policy)


@pytest.mark.e2e
class TestWebhook:
    async def test_exactly_the_gang_pods_are_gated(self, by_webhook):
        await holds_whom_it_should(by_webhook)

    async def test_webhook_changes_nothing_but_the_gate(self, by_webhook):
        await changes_nothing_else(by_webhook)

    async def test_complete_gang_is_ungated(self, by_webhook):
        """By the same program, with only labels on the pods."""
        client, run = by_webhook.client, by_webhook.run
        run("kubectl", "apply", "--server-side", "-k", "deploy/crd")
        await ensure(client, NODES, node_object("node-a", 0, now=1e9))
        # A controller, if any, removes the taint that a new node has.
        await client.patch(NODES, "node-a", {"spec": {"taints": None}})
        pair = {"podGroup": "pair", "minAvailable": "2"}
        first = await by_webhook.create(pair, name="pair-0", dry=False)
        assert first["spec"]["schedulingGates"] == [OURS]
        await by_webhook.event("GangIncomplete", "pair-0")
        await by_webhook.create(pair, name="pair-1", dry=False)
        for name in ("pair-0", "pair-1"):
            await by_webhook.let_go(name)

    async def test_invalid_labels_are_a_warning_to_the_pods_creator(self, by_webhook):
        command = ["kubectl", "run", "train-0", "--image=none", "--dry-run=server", "-nresearch"]
        shell = " ".join([*command, "--labels=podGroup=train,minAvailable=four", "2>&1"])
        said = by_webhook.run("bash", "-c", shell)
        assert "Warning: gangs: its label minAvailable is 'four'" in said

    async def test_without_an_evaluator_gang_pods_are_rejected_and_others_created(self, by_webhook):
        await by_webhook.stop()
        for labels, spec, gates in CASES:
            if OURS in gates and OURS not in spec.get("schedulingGates", ()):
                with pytest.raises(ApiError, match=r"failed calling webhook.*gangs\.plimsoll\.io"):
                    await by_webhook.gates(labels, **spec)
        assert await by_webhook.gates({"app": "web"}) == []
        assert await by_webhook.gates(GANG, "elsewhere") == []
        assert await by_webhook.gates(GANG, schedulingGates=[OURS]) == [OURS]
        assert await by_webhook.gates(GANG, nodeName="node-a") == []

    async def test_admission_policy_works_without_the_webhook(self, by_webhook):
        """The policy applies first, and the webhook skips pods that are gated already."""
        await by_webhook.stop()
        by_webhook.run("kubectl", "apply", "-k", "deploy/gangs/policy")
        await by_webhook.until([OURS])
        by_webhook.run("kubectl", "delete", "-k", "deploy/gangs/policy")

"""The stop on an API server: plain kubectl writes it, every replica reads it, and the right to it is a role of its own."""

import asyncio
import json
import shutil
import subprocess

import pytest

from sandbox import manifests
from sandbox.apiserver.server import ApiServer
from sandbox.client.objects import EVENTS, NODES, PODS, ObjectKind
from tests.cluster.replicas import SHORT

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.features("stop", "evictions", "node_actions", "labels", "pages"),
    pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl on PATH"),
]

NAME = "plimsoll-stop"
CONFIG_MAPS = ObjectKind("configmaps")
RBAC = "rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = ObjectKind("roles", RBAC), ObjectKind("rolebindings", RBAC)
ACTIONS = {
    "plimsoll.io/actions": "label,taint,condition",
    "plimsoll.io/taint-effect": "NoSchedule",
    "plimsoll.io/max-nodes": "100%",
}
FLAGS = ("--taints", "--conditions", "--evict", "--maxActedNodes=100%")


async def kubectl(world, *words):
    """(exit status, output and errors)."""
    where = (f"--kubeconfig={world.plane.kubeconfig}", f"--namespace={world.namespace}")
    made = await asyncio.create_subprocess_exec(
        "kubectl", *where, *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    out, _ = await made.communicate()
    return made.returncode, out.decode()


async def write_stop(world, data, *flags):
    patch = json.dumps({"data": data})
    words = ("patch", "configmap", NAME, "--type=merge", f"--patch={patch}", *flags)
    return await kubectl(world, *words)


class Setting:
    """Two nodes, a policy that acts on them in every way, and two replicas. The manifests' ConfigMap and Role exist."""

    def __init__(self, world, replicas):
        self.world, self.replicas = world, replicas

    async def start(self):
        world = self.world
        self.nodes = [await world.add_node(name) for name in ("a", "b")]
        await self.sick()
        rules = {"dontschedule": ["health Equals 2"], "deschedule": ["health Equals 2"]}
        self.policy = await world.add_policy("demo", **rules, annotations=ACTIONS)
        for obj in manifests.load(manifests.folder() / "evaluator" / "stop.yaml"):
            if obj["kind"] == "Role" and isinstance(world.plane.server, ApiServer):
                continue  # the sandbox has no roles
            kind = CONFIG_MAPS if obj["kind"] == "ConfigMap" else ROLES
            meta = {**obj["metadata"], "namespace": world.namespace}
            await world.client.create(kind, {**obj, "metadata": meta})
        await self.replicas.start(2, *FLAGS, *SHORT)
        await self.replicas.ready()

    async def sick(self, *nodes):
        for node in self.nodes:
            self.replicas.say(node, health=2 if node in nodes else 0)

    async def marked(self, policy=None):
        """The nodes with the policy's taint, its label and its condition; some of them: an error."""
        found = set()
        for name in self.nodes:
            node = await self.world.client.get(NODES, name)
            key = f"plimsoll.io/{self.world.namespace}.{policy or self.policy}"
            conditions = {c["type"].lower(): c["status"] for c in node["status"]["conditions"]}
            marks = {
                any(taint["key"] == key for taint in node["spec"].get("taints") or ()),
                (policy or self.policy) in node["metadata"]["labels"],
            }
            marks.add(
                any(c.startswith("plimsoll.io/") and s == "True" for c, s in conditions.items())
            )
            if True in marks:
                found.add(name)
        return found

    async def until_marked(self, *nodes):
        async def agree():
            return await self.marked() == {*nodes}

        await self.world.eventually(agree)

    async def until_refused(self, *nodes):
        """Wait until filter answers of every replica refuse these nodes."""
        labels = {"telemetry-policy": self.policy}
        meta = {"name": "q", "namespace": self.world.namespace, "labels": labels}
        for one in self.replicas.all:

            async def agree(one=one):
                answer = await one.evaluator.filter({"metadata": meta, "spec": {}}, self.nodes)
                return {*(answer["FailedNodes"] or ())} == {*nodes}

            await self.world.eventually(agree)

    async def until_noticed(self, words):
        """Wait until every replica's page says this, or nothing if it is empty."""
        for one in self.replicas.all:

            async def agree(one=one):
                _, text = await one.evaluator.get("/explain")
                notices = json.loads(text or "{}").get("notices") or []
                return words in notices if words else not notices

            await self.world.eventually(agree)

    async def stopped(self, status, words=""):
        def said(found):
            return any(
                one["type"] == "Stopped" and one["status"] == status and words in one["message"]
                for one in found.get("conditions", ())
            )

        await self.world.status(self.policy, said)


@pytest.fixture
async def setting(world, replicas):
    made = Setting(world, replicas)
    await made.start()
    return made


async def test_stop_by_plain_kubectl_freezes_both_replicas_and_later_policies(setting):
    world, (a, b) = setting.world, setting.nodes
    await setting.sick(a)
    await setting.until_marked(a)
    assert (await write_stop(world, {"all": "storage migration"}))[0] == 0
    await setting.until_noticed("all policies are frozen (by an unknown user: storage migration)")
    await setting.stopped("True", "storage migration")
    later = await world.add_policy("later", deschedule=["health Equals 2"], annotations=ACTIONS)
    await world.add_pod("web", setting.policy, b)
    await setting.sick(b)
    await setting.until_refused(b)
    leader = await setting.replicas.leader()
    await leader.evaluator.stop(kill=True)
    (other,) = [one for one in setting.replicas.all if one is not leader]
    assert await setting.replicas.leader([other]) is other
    await world.status(later, lambda found: b in str(found.get("message")))
    assert await setting.marked() == {a}
    assert await setting.marked(later) in ({a}, set())
    assert "deletionTimestamp" not in (await world.client.get(PODS, "web", world.namespace))["metadata"]  # fmt: skip
    await leader.evaluator.start(
        "--leaderElect=true", f"--leaseNamespace={world.namespace}", *FLAGS, *SHORT
    )
    await setting.until_noticed("all policies are frozen (by an unknown user: storage migration)")
    assert (await write_stop(world, None))[0] == 0
    await setting.until_noticed("")
    await setting.until_marked(b)

    async def told():
        events = (await world.client.list(EVENTS, world.namespace)).items
        return {"PolicyStopped", "PolicyResumed"} <= {one["reason"] for one in events}

    await world.eventually(told)


async def test_release_opens_nodes_and_resume_closes_them(setting):
    a, _ = setting.nodes
    await setting.sick(a)
    await setting.until_marked(a)
    entry = json.dumps({"mode": "release", "by": "alice", "reason": "test"})
    key = f"{setting.world.namespace}.{setting.policy}"
    assert (await write_stop(setting.world, {key: entry}))[0] == 0
    await setting.until_marked()
    await setting.until_refused()
    await setting.stopped("True", "only observed (alice: test)")
    assert (await write_stop(setting.world, {key: None}))[0] == 0
    await setting.until_marked(a)
    await setting.until_refused(a)


async def test_right_to_stop_is_a_role_of_its_own(setting):
    world = setting.world
    if isinstance(world.plane.server, ApiServer):
        pytest.skip("the sandbox has no authorization")
    as_oncall = ("--as=oncall",)
    status, out = await write_stop(world, {"all": "x"}, *as_oncall)
    assert (status, "forbidden" in out.lower()) == (1, True)
    subject = {"apiGroup": RBAC[:-3], "kind": "User", "name": "oncall"}
    binding = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": {"name": "oncall", "namespace": world.namespace},
        "roleRef": {"apiGroup": RBAC[:-3], "kind": "Role", "name": NAME},
        "subjects": [subject],
    }
    await world.client.create(BINDINGS, binding)

    async def allowed():
        return (await write_stop(world, {"all": "x"}, *as_oncall))[0] == 0

    await world.eventually(allowed)
    for words in (
        ("create", "configmap", "other"),
        ("delete", "configmap", NAME),
        ("get", "configmaps"),
        ("annotate", "taspolicy", setting.policy, "plimsoll.io/enforcement=observe"),
    ):
        status, out = await kubectl(world, *words, *as_oncall)
        assert (status, "forbidden" in out.lower()) == (1, True), words


async def test_evaluator_has_no_right_to_write_the_stop(setting):
    world = setting.world
    if isinstance(world.plane.server, ApiServer):
        pytest.skip("the sandbox has no authorization")
    subject = {"kind": "ServiceAccount", "name": "plimsoll-evaluator"}
    for obj in manifests.load(manifests.folder() / "evaluator" / "rbac.yaml"):
        if obj["kind"] not in {"Role", "RoleBinding"}:
            continue
        meta = {**obj["metadata"], "namespace": world.namespace}
        body = {**obj, "metadata": meta}
        if obj["kind"] == "RoleBinding":
            body["subjects"] = [{**subject, "namespace": world.namespace}]
        await world.client.create(ROLES if obj["kind"] == "Role" else BINDINGS, body)
    account = f"--as=system:serviceaccount:{world.namespace}:plimsoll-evaluator"

    async def reads():
        words = ("get", "configmaps", f"--field-selector=metadata.name={NAME}", account)
        return (await kubectl(world, *words))[0] == 0

    await world.eventually(reads)
    for verb in ("patch", "update", "delete"):
        _, out = await kubectl(world, "auth", "can-i", verb, f"configmap/{NAME}", account)
        assert out.strip().splitlines()[-1] == "no", verb

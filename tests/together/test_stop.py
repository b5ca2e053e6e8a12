"""The stop on the sandbox, with two replicas of the real evaluator that are restarted: what stands stays, and answers go on."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys

import aiohttp
import pytest

from tests import preloaded
from tests.evaluator.evaluator_process import EvaluatorProcess
from tests.evaluator.faults.conftest import Node
from tests.eventually import eventually

pytestmark = pytest.mark.features("stop", "labels", "node_actions", "evictions", "pages")

NODES = ("node-a", "node-b", "node-c")
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
STOP = f"{CONFIG_MAPS}/plimsoll-stop"
FLAGS = (
    *("--unsafe", "--bindAddress=127.0.0.1", "--port=0", "--agentPort=0", "--opsPort=0"),
    *("--syncPeriod=200ms", "--staleAfter=60s", "--leaseNamespace=default"),
    *("--leaseDuration=2s", "--renewDeadline=1.5s", "--retryPeriod=200ms"),
    *("--taints", "--conditions", "--evict", "--evictPeriod=200ms", "--maxActedNodes=3"),
)


class World:
    """Three nodes, two policies that set labels, taints and conditions, and two replicas."""

    def __init__(self, api, session, environment):
        self.api = api
        self.session = session
        self._environment = environment
        self._stack = contextlib.AsyncExitStack()
        self.replicas = []
        self.values = dict.fromkeys(NODES, 0.0)

    async def start(self):
        for _ in range(2):
            command = (sys.executable, "-P", "-m", "evaluator", *FLAGS)
            process = await preloaded.start(command, self._environment, stderr=subprocess.PIPE)
            replica = EvaluatorProcess(process)
            self.replicas.append(replica)
            self._stack.push_async_callback(replica.kill)
        for replica in self.replicas:
            await replica.listening()
            for name in NODES:
                node = _Reporting(name, replica.ports["agents"], self.values)
                task = asyncio.create_task(node.run())
                self._stack.push_async_callback(_cancelled, task)
        for replica in self.replicas:
            await eventually(lambda replica=replica: self.is_ready(replica))

    async def is_ready(self, replica):
        async with self.session.get(self._url(replica, "/readyz")) as response:
            return response.status == 200

    def _url(self, replica, path):
        return f"http://127.0.0.1:{replica.ports['ops']}{path}"

    async def kill(self):
        await self._stack.aclose()
        assert not [line for one in self.replicas for line in one.lines if "Traceback" in line]
        self.replicas.clear()

    async def get(self, replica, path="/explain"):
        async with self.session.get(self._url(replica, path)) as response:
            return await response.json()

    async def stop(self, **data):
        """Write these entries, `namespace.name` as `namespace__name`, as plain kubectl would; every replica has read them."""
        entries = {key.replace("__", "."): text for key, text in data.items()}
        with contextlib.suppress(Exception):
            await self.api.call("DELETE", STOP)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plimsoll-stop"}}
        await self.api.call("POST", CONFIG_MAPS, {**body, "data": entries})
        for replica in self.replicas:
            await eventually(lambda replica=replica: self._has_read(replica, len(entries)))

    async def _has_read(self, replica, entries):
        stop = (await self.get(replica, "/explain/default/demo")).get("notices", ())
        return bool(stop) == bool(entries)

    async def refused(self, replica):
        """The nodes that filter refuses to a pod of the policy demo."""
        meta = {"name": "q", "namespace": "default", "labels": {"telemetry-policy": "demo"}}
        question = {"Pod": {"metadata": meta}, "Nodes": None, "NodeNames": [*NODES]}
        url = f"http://127.0.0.1:{replica.ports['extender']}/scheduler/filter"
        async with self.session.post(url, json=question) as response:
            return {*((await response.json()).get("FailedNodes") or ())}

    async def all_refuse(self, *nodes):
        for replica in self.replicas:
            await eventually(lambda replica=replica: self._refuses(replica, {*nodes}))

    async def _refuses(self, replica, nodes):
        return await self.refused(replica) == nodes

    async def marks(self):
        """What the policies set on nodes: policy → nodes with its taint, its label and its condition."""
        found = {}
        for name in NODES:
            node = await self.api.get(f"/api/v1/nodes/{name}")
            for policy in ("demo", "other"):
                conditions = {c["type"]: c["status"] for c in node["status"].get("conditions", ())}
                taints = [t["key"] for t in node["spec"].get("taints") or ()]
                marks = (
                    f"plimsoll.io/default.{policy}" in taints,
                    (node["metadata"].get("labels") or {}).get(policy) == "violating",
                    conditions.get(f"plimsoll.io/{policy}") == "True",
                )
                if any(marks):
                    found.setdefault(policy, {})[name] = marks
        return found

    async def until(self, **nodes):
        """Wait until the policies have marked exactly these nodes, by all three means."""
        wanted = {
            name: dict.fromkeys(marked, (True,) * 3) for name, marked in nodes.items() if marked
        }

        async def reached():
            return await self.marks() == wanted

        await eventually(reached)

    async def versions(self):
        nodes = [await self.api.get(f"/api/v1/nodes/{name}") for name in NODES]
        return [node["metadata"]["resourceVersion"] for node in nodes]

    async def condition(self, policy, status, words):
        path = f"/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies/{policy}"

        def said(found):
            conditions = found.get("status", {}).get("conditions", ())
            return status in [c["status"] for c in conditions if c["type"] == "Stopped" and words in c["message"]]  # fmt: skip

        await self.api.seen(path, said)


class _Reporting(Node):
    """A node whose value is shared by its reports to all replicas."""

    def __init__(self, name, port, values):
        self._values = values
        super().__init__(name, port)

    @property
    def value(self):
        return self._values[self.name]

    @value.setter
    def value(self, _value):
        pass


async def _cancelled(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def world(api, kubeconfig, tas, rule):
    await api.policies()
    for name in ("demo", "other"):
        sick = [rule("health Equals 1")]
        policy = tas(name, "default", dontschedule=sick, deschedule=sick)
        policy["metadata"]["annotations"] = annotations = {
            "plimsoll.io/actions": "label,taint,condition",
            "plimsoll.io/condition-type": f"plimsoll.io/{name}",
            "plimsoll.io/max-nodes": "3",
        }
        await api.policy(policy)
        path = f"/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies/{name}"
        await api.merge(path, {"metadata": {"annotations": annotations}})
    for name in NODES:
        await api.node(name)
    environment = {"PATH": os.environ["PATH"], "KUBECONFIG": kubeconfig(api.url)}
    async with aiohttp.ClientSession() as session:
        made = World(api, session, environment)
        await made.start()
        yield made
        await made.kill()


async def test_stop_of_all_policies_holds_over_restarts_while_filter_answers_go_on(world):
    world.values["node-a"] = 1.0
    await world.until(demo=["node-a"], other=["node-a"])
    await world.stop(all=json.dumps({"by": "alice", "reason": "migration"}))
    await world.condition("demo", "True", "alice: migration")
    before = await world.versions()
    world.values |= {"node-a": 0.0, "node-b": 1.0}
    await world.api.pod("web", "node-b")
    await world.all_refuse("node-b")
    await world.kill()
    await world.start()
    await world.all_refuse("node-b")
    path = "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies/demo"
    await world.api.seen(path, lambda found: "node-b" in found["status"]["message"])
    assert await world.versions() == before
    assert "deletionTimestamp" not in (await world.api.get("/api/v1/namespaces/default/pods/web"))["metadata"]  # fmt: skip
    for replica in world.replicas:
        page = await world.get(replica)
        assert page["notices"] == ["all policies are frozen (alice: migration)"]
    await world.stop()
    await world.until(demo=["node-b"], other=["node-b"])


async def test_stop_of_one_policy_costs_no_other_policy_anything(world):
    world.values["node-a"] = 1.0
    await world.until(demo=["node-a"], other=["node-a"])
    await world.stop(default__demo="")
    world.values |= {"node-a": 0.0, "node-c": 1.0}
    await world.until(demo=["node-a"], other=["node-c"])
    await world.all_refuse("node-c")
    await world.kill()
    await world.start()
    world.values["node-b"] = 1.0
    await world.until(demo=["node-a"], other=["node-b", "node-c"])
    await world.stop()
    await world.until(demo=["node-b", "node-c"], other=["node-b", "node-c"])


async def test_release_observes_and_resuming_enforces_again(world):
    world.values["node-a"] = 1.0
    await world.until(demo=["node-a"], other=["node-a"])
    await world.stop(all=json.dumps({"mode": "release", "by": "alice"}))
    await world.until(demo=[], other=[])
    await world.all_refuse()
    await world.condition("demo", "True", "only observed (alice)")
    await world.stop()
    await world.until(demo=["node-a"], other=["node-a"])
    await world.all_refuse("node-a")


@pytest.mark.parametrize(
    "data",
    [
        {"Odd_Key": "\x1b[31m\u202e"},
        {"all": "x" * 300_000},
        {f"a__p{number}": "{" for number in range(600)},
    ],
    ids=["odd key", "too large", "too many entries"],
)
async def test_hostile_object_freezes_and_costs_nothing_else(world, data):
    world.values["node-a"] = 1.0
    await world.until(demo=["node-a"], other=["node-a"])
    await world.stop(**data)
    before = await world.versions()
    world.values |= {"node-a": 0.0, "node-b": 1.0}
    await world.all_refuse("node-b")
    assert await world.versions() == before
    for number in range(30):  # edits without end: the last one counts
        await world.api.merge(STOP, {"data": {"all": f"edit {number}", "x.y": "{" * number}})
    await world.stop()
    await world.until(demo=["node-b"], other=["node-b"])

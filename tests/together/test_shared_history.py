"""The history of actions on the sandbox, with two replicas of the real evaluator: both answer alike, over kills and restarts."""

import asyncio
import base64
import contextlib
import gzip
import os
import signal
import subprocess
import sys

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sandbox import manifests
from tests import preloaded
from tests.evaluator.evaluator_process import EvaluatorProcess
from tests.eventually import eventually
from tests.together.running import SICK, policy_body

pytestmark = [pytest.mark.e2e, pytest.mark.features("history", "node_actions", "pages")]

SECRETS = "/api/v1/namespaces/default/secrets"
HISTORY = f"{SECRETS}/plimsoll-history"
FLAGS = (
    *("--unsafe", "--bindAddress=127.0.0.1", "--port=0", "--agentPort=0", "--opsPort=0"),
    *("--syncPeriod=200ms", "--leaseNamespace=default"),
    *("--leaseDuration=2s", "--renewDeadline=1.5s", "--retryPeriod=200ms", "--shutdownDelay=0s"),
    *("--taints", "--maxActedNodes=100%", "--kubeQPS=2000"),
)
ACTIONS = {"kind": "written,not written,stopped,resumed"}


class World:
    """Nodes with a condition that a policy reads, and replicas."""

    def __init__(self, api, session, environment):
        self.api, self.session = api, session
        self._environment = environment
        self.replicas = []

    async def start(self):
        command = (sys.executable, "-P", "-m", "evaluator", *FLAGS)
        process = await preloaded.start(command, self._environment, stderr=subprocess.PIPE)
        replica = EvaluatorProcess(process)
        self.replicas.append(replica)
        await eventually(lambda: replica.ports.keys() >= {"ops"})
        await eventually(lambda: self._is_ready(replica))
        return replica

    async def _is_ready(self, replica):
        async with self.session.get(self.url(replica, "/readyz")) as response:
            return response.status == 200

    def url(self, replica, path):
        return f"http://127.0.0.1:{replica.ports['ops']}{path}"

    async def kill(self, replica):
        self.replicas.remove(replica)
        await replica.kill()
        assert not [line for line in replica.lines if "Traceback" in line]

    async def stop(self, replica):
        self.replicas.remove(replica)
        replica.signal(signal.SIGTERM)
        await replica.ended()

    async def page(self, replica, **query):
        async with self.session.get(self.url(replica, "/history.json"), params=query) as response:
            assert response.status == 200
            return await response.json()

    async def actions(self, replica):
        """What a replica answers to the question what was done, whatever it numbers its records; newest first."""
        found, page = [], {"window": {"pages": 1}}
        number = 0
        while number < page["window"]["pages"]:
            number += 1
            page = await self.page(replica, page=str(number), **ACTIONS)
            found += page["records"]
        return [{k: v for k, v in one.items() if k != "number"} for one in found]

    async def leader(self):
        """The replica that leads."""

        async def found():
            for replica in self.replicas:
                if await self.sample(replica, "plimsoll_leader"):
                    return replica
            return None

        return await eventually(found)

    async def sample(self, replica, name):
        async with self.session.get(self.url(replica, "/metrics")) as response:
            families = [*text_string_to_metric_families(await response.text())]
        return sum(s.value for family in families for s in family.samples if s.name == name)

    async def alike(self, count):
        """Wait until all replicas show the same actions, of which there are `count`; return them."""
        answers = []

        async def same():
            answers[:] = [await self.actions(replica) for replica in self.replicas]
            return len(answers[0]) == count and all(one == answers[0] for one in answers)

        try:
            await eventually(same, every=0.5)
        except TimeoutError:
            pytest.fail(f"{[len(one) for one in answers]} actions, not {count}: {answers[0][:3]}")
        return answers[0]

    async def sick(self, names, status="True"):
        body = {"status": {"conditions": [{"type": "Sick", "status": status}]}}
        body |= {"apiVersion": "v1", "kind": "Node"}
        for name in names:
            body["metadata"] = {"name": name}
            await self.api.apply(f"/api/v1/nodes/{name}/status", body, "doctor", force=True)


@pytest.fixture
async def world(api, kubeconfig):
    await api.policies()
    await api.call("POST", SECRETS, manifests.history())
    body = policy_body(
        "demo",
        {
            "plimsoll.io/actions": "taint",
            "plimsoll.io/max-nodes": "5000",
            "plimsoll.io/taint-effect": "NoSchedule",
        },
        deschedule={"rules": [SICK]},
    )
    await api.call("POST", "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies", body)  # fmt: skip
    environment = {"PATH": os.environ["PATH"], "KUBECONFIG": kubeconfig(api.url)}
    async with aiohttp.ClientSession() as session:
        made = World(api, session, environment)
        yield made
        for replica in [*made.replicas]:
            await made.kill(replica)


async def test_two_replicas_and_a_restart_answer_alike_under_a_storm(world, soak):
    """All nodes are tainted at once; the leader is stopped, the next one killed."""
    names = [f"node-{number:04d}" for number in range(5_000 if soak else 60)]
    for name in names:
        await world.api.node(name)
    first, _ = await world.start(), await world.start()
    await world.sick(names)
    shown = await world.alike(len(names))
    assert {one["node"] for one in shown} == {*names}
    await world.stop(first)
    await world.start()
    assert await world.alike(len(names)) == shown
    leader = await world.leader()
    await world.sick(names[:5], "False")
    await world.alike(len(names) + 5)
    await world.kill(leader)
    await world.start()
    again = await world.alike(len(names) + 5)
    assert again[5:] == shown
    secret = await world.api.get(HISTORY)
    assert sum(len(base64.b64decode(value)) for value in secret["data"].values()) < 512 << 10


async def test_stop_loses_no_action(world):
    """The newest actions are written before leadership is given up."""
    await world.api.node("node-a")
    await world.api.node("node-b")
    leader = await world.start()
    await world.sick(["node-a"])
    await eventually(lambda: world.actions(leader))
    await world.sick(["node-b"])

    async def both():
        return len(await world.actions(leader)) == 2

    await eventually(both)
    await world.stop(leader)
    later = await world.start()
    assert len(await world.alike(2)) == 2
    assert (await world.page(later))["actions"]["problem"] is None


async def test_damaged_object_costs_itself(world):
    await world.api.node("node-a")
    leader = await world.start()
    other = await world.start()
    await world.sick(["node-a"])
    await world.alike(1)
    bomb = base64.b64encode(gzip.compress(b"[" * (64 << 20))).decode()
    odd = {
        "actions-000000000002": "////",
        "actions-000000000003": bomb,
        "x": "eA==",
        "info.json": "e30=",
    }
    await world.api.merge(HISTORY, {"data": odd})
    for replica in (leader, other):
        await eventually(lambda r=replica: world.sample(r, "plimsoll_history_unreadable_total"))
    await world.sick(["node-a"], "False")
    await world.alike(2)
    assert "x" not in (await world.api.get(HISTORY))["data"]
    await world.kill(other)
    await world.start()
    await world.alike(2)


async def test_page_says_why_actions_are_not_shared_and_goes_on(world):
    await world.api.delete(HISTORY)
    await world.api.node("node-a")
    leader = await world.start()
    await world.sick(["node-a"])
    await eventually(lambda: world.actions(leader))
    known = (await world.page(leader))["actions"]
    assert "Secret plimsoll-history does not exist: apply the manifests" in known["problem"]
    async with world.session.get(world.url(leader, "/history")) as response:
        assert "apply the manifests" in await response.text()
    await world.api.call("POST", SECRETS, manifests.history())

    async def is_shared():
        return (await world.page(leader))["actions"]["problem"] is None

    await eventually(is_shared)
    await world.start()
    await world.alike(1)


async def test_stop_of_policies_is_shown_once(world):
    await world.api.node("node-a")
    await world.start()
    await world.start()
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plimsoll-stop"}}
    await world.api.call("POST", "/api/v1/namespaces/default/configmaps", {**body, "data": {"all": "migration"}})  # fmt: skip
    [stopped] = await world.alike(1)
    assert (stopped["kind"], "migration" in stopped["text"]) == ("stopped", True)
    await world.stop(await world.leader())
    await world.start()
    assert await world.alike(1) == [stopped]
    with contextlib.suppress(AssertionError):
        await world.api.delete("/api/v1/namespaces/default/configmaps/plimsoll-stop")
    assert (await world.alike(2))[0]["kind"] == "resumed"
    await asyncio.sleep(0)

"""Node conditions across an upgrade and a rollback: field managers stay, so neither version rewrites what the other wrote."""

import asyncio
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry, Counter

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.kube.client import Kube
from evaluator.core.policy.decide import Decisions
from evaluator.core.readings.reported import NodeProblems
from evaluator.core.signals import NodeActionsChanged, on_node
from evaluator.core.writes.node_writer import WriteContext
from evaluator.features.node_actions.controller import condition_writer as policies_writer
from evaluator.features.node_actions.types import ActionPlan
from evaluator.features.problems.controller import condition_writer as problems_writer
from evaluator.features.problems.plan import ProblemConditions
from plimsoll.ratelimit import TokenBucket
from sandbox.apiserver.server import ApiServer
from sandbox.client.client import APPLY, STRATEGIC, Client
from sandbox.client.objects import NODES
from sandbox.controllers.nodes import node_object
from sandbox.endpoints import kubeconfig
from tests.eventually import eventually
from wire.problems import ProblemCondition, Problems

pytestmark = pytest.mark.e2e

SINCE = "2026-08-22T08:00:00Z"
WRITTEN = {
    "plimsoll": [
        {
            "type": "plimsoll.io/Demo",
            "status": "True",
            "reason": "DescheduleViolated",
            "message": "",
            "lastTransitionTime": SINCE,
        },
        {
            "type": "plimsoll.io/Past",
            "status": "False",
            "reason": "Cleared",
            "message": "",
            "lastTransitionTime": SINCE,
        },
    ],
    "plimsoll-problems": [
        {
            "type": "KernelDeadlock",
            "status": "True",
            "reason": "DockerHung",
            "message": "task docker:1 hangs",
            "lastTransitionTime": SINCE,
            "lastHeartbeatTime": "2026-08-22T08:01:40Z",
        }
    ],
}
"""The conditions that 2db00fcf applies, by field manager, in this order."""
STATES = {"plimsoll.io/Demo": "True/DescheduleViolated", "plimsoll.io/Past": "False/Cleared"}
PROBLEM = ProblemCondition(
    "KernelDeadlock", True, "DockerHung", "task docker:1 hangs", 1_787_385_600.0
)
NOW = 1_787_385_700.0


@pytest.fixture(params=["sandbox", "real"])
async def plane(request, tmp_path):
    """A client, the client of the evaluator, and two nodes with a condition of another reporter."""
    if request.param == "real":
        control = request.getfixturevalue("control_plane")
        url, access = control.url, {"token": control.token, "ca": control.ca}
    else:
        server, access = ApiServer(), {}
        url = await server.start()
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig(url, **access))
    kube = await Kube.connect(str(path))
    async with Client(url, **access) as client:
        for number, name in enumerate(("node-a", "node-b")):
            await client.create(NODES, node_object(name, number, now=1e9))
            others = {"status": {"conditions": [{"type": "Theirs", "status": "False"}]}}
            await client.request("PATCH", status_of(name), body=others, content_type=STRATEGIC)
        yield SimpleNamespace(client=client, kube=kube)
        for name in ("node-a", "node-b"):
            await client.delete(NODES, name)
    await kube.close()
    if request.param == "sandbox":
        await server.close()


def status_of(node):
    return NODES.path("", node) + "/status"


async def write_as_before(plane, name):
    """Write the conditions as 2db00fcf does."""
    uid = (await plane.client.get(NODES, name))["metadata"]["uid"]
    for manager, conditions in WRITTEN.items():
        metadata = {"name": name, "uid": uid}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        await plane.client.request(
            "PATCH",
            status_of(name),
            body=body | {"status": {"conditions": conditions}},
            params={"fieldManager": manager},
            content_type=APPLY,
        )


class Evaluator:
    """The writers of both features."""

    def __init__(self, plane, *, nodes):
        self.plane, self.nodes = plane, nodes
        self.cluster, self.problems = ClusterCache(), NodeProblems()
        decider = SimpleNamespace(waiting_for=[], latest=Decisions())
        context = WriteContext(
            kube=plane.kube, cluster=self.cluster, decider=decider, bucket=TokenBucket(1e6, 1000)
        )
        self.writes = Counter("writes", "Writes.", ["result"], registry=CollectorRegistry())
        plan = ActionPlan(conditions=dict.fromkeys(nodes, STATES))
        self.planner = SimpleNamespace(
            latest=plan, ready=True, clock=lambda: NOW - 100, standing=lambda _node, _kind: None
        )
        found = ProblemConditions(self.problems, {"KernelDeadlock"}, lambda: NOW)
        self.of_policies = policies_writer(context, self.planner, self.writes)
        self.of_problems = problems_writer(context, found, self.writes)
        for writer in (self.of_policies, self.of_problems):
            self.cluster.signals.connect([on_node(NodeActionsChanged, writer.wake)])

    def report(self, name, found):
        if self.problems.report(name, found):
            self.of_problems.wake(name)

    async def start(self):
        for name in self.nodes:
            self.report(name, Problems((PROBLEM,)))
            self.cluster.nodes.put(await self.plane.kube.list_node(name))
        self.running = [asyncio.create_task(w.run()) for w in (self.of_policies, self.of_problems)]

    def clear(self):
        """No policy is left, and no problem is configured."""
        self.planner.latest = ActionPlan()
        self.of_policies.wake()
        for name in self.nodes:
            self.report(name, Problems())

    def written(self, result="ok"):
        return self.writes.labels(result)._value.get()


@pytest.fixture
async def evaluator(plane):
    made = []

    async def start(*nodes):
        made.append(Evaluator(plane, nodes=nodes))
        await made[0].start()
        return made[0]

    yield start
    for task in made[0].running:
        task.cancel()


async def status(plane, name):
    """The conditions of a node and who owns its status, without times of writes."""
    found = await plane.client.get(NODES, name)
    fields = [
        {key: value for key, value in entry.items() if key != "time"}
        for entry in found["metadata"]["managedFields"]
        if entry.get("subresource") == "status"
    ]
    owned = sorted(fields, key=lambda entry: (entry["manager"], entry["operation"]))
    return sorted(found["status"]["conditions"], key=lambda one: one["type"]), owned


async def test_conditions_that_stand_are_kept_without_a_write(plane, evaluator):
    await write_as_before(plane, "node-a")
    before = await plane.client.get(NODES, "node-a")
    new = await evaluator("node-a", "node-b")
    await eventually(lambda: new.written() == 2)  # node-b, by each feature
    assert await plane.client.get(NODES, "node-a") == before


async def test_what_is_written_is_what_the_version_before_would_have_written(plane, evaluator):
    await write_as_before(plane, "node-a")
    new = await evaluator("node-b")
    await eventually(lambda: new.written() == 2)
    assert await status(plane, "node-b") == await status(plane, "node-a")


async def test_conditions_of_the_version_before_clear_and_those_of_others_stay(plane, evaluator):
    found = (await plane.client.get(NODES, "node-a"))["status"]
    others, capacity = {c["type"] for c in found["conditions"]}, found["capacity"]
    await write_as_before(plane, "node-a")
    new = await evaluator("node-a")
    new.clear()

    async def left():
        found = (await plane.client.get(NODES, "node-a"))["status"]
        return found if {c["type"] for c in found["conditions"]} == others else None

    found = await eventually(left)
    assert "Theirs" in others
    assert found["capacity"] == capacity

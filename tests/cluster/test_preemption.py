"""No pod is deleted for a pod that may not run in its place, in the sandbox as with the real kube-scheduler.

Three full nodes; one violates the policy of a waiting pod with a high priority, and its pods have low priorities.
"""

import asyncio
import contextlib
import itertools
import random

import pytest

from sandbox.apiserver.server import ApiServer
from sandbox.client.client import STRATEGIC, ApiError
from sandbox.client.objects import BUDGETS, NODES, PODS, POLICIES, REPLICASETS, ObjectKind
from sandbox.controllers.deployments import Deployments
from sandbox.envtest import NoControlPlaneError
from tests.eventually import eventually

pytestmark = pytest.mark.e2e

CLASSES = ObjectKind("priorityclasses", "scheduling.k8s.io/v1", namespaced=False)
FULL = {"requests": {"cpu": "6"}}
"""Of the 8 cores of a node."""
TAINT = {
    "plimsoll.io/actions": "taint",
    "plimsoll.io/taint-effect": "NoSchedule",
    "plimsoll.io/max-nodes": "100%",
}
CALLS = 'plimsoll_extender_requests_total{code="200",outcome="decided",verb="preempt"}'


@contextlib.asynccontextmanager
async def replica_sets(plane):
    """A controller that replaces deleted pods of ReplicaSets."""
    if isinstance(plane.server, ApiServer):
        task = asyncio.create_task(Deployments(plane.client, rng=random.Random(1)).run())
        yield
        task.cancel()
        await asyncio.wait([task])
        return
    if plane.server is None:
        pytest.skip("a cluster's own scheduler is not ours to configure")
    try:
        with plane.server.controllers("replicaset-controller") as is_up:
            await eventually(is_up)
            yield
    except NoControlPlaneError as error:
        pytest.skip(str(error))


@pytest.fixture
async def priorities(world):
    """Priority classes of the scenario, by short names, from the lowest to the highest."""
    names = {one: world.name(one) for one in ("low", "mid", "high", "top")}
    for value, name in enumerate(names.values()):
        meta = {"name": name}
        body = {"apiVersion": CLASSES.api_version, "kind": "PriorityClass", "metadata": meta}
        await world.client.create(CLASSES, body | {"value": 1000 * value})
    yield names
    for name in names.values():
        await world.client.delete(CLASSES, name)


class Crowd:
    """Full nodes, each with the pod of a ReplicaSet, and a waiting pod."""

    def __init__(self, world, priorities):
        self.world = world
        self.priorities = priorities

    async def fill(self, node, priority):
        """Fill a node with a pod that its controller replaces."""
        labels = {"fills": node, self.world.marks: self.world.suffix}
        spec = {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "priorityClassName": self.priorities[priority],
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "none", "resources": FULL}],
        }
        body = {
            "apiVersion": REPLICASETS.api_version,
            "kind": "ReplicaSet",
            "metadata": {"name": node, "namespace": self.world.namespace},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"fills": node}},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
        await self.world.client.create(REPLICASETS, body)

    async def full(self):
        """Wait until the pods of the controllers are bound; return their UIDs by node."""

        async def bound():
            found = await self.running()
            return found if len(found) == 3 else None

        return await self.world.eventually(bound)

    async def running(self):
        pods = (await self.world.client.list(PODS, self.world.namespace)).items
        return {
            pod["spec"]["nodeName"]: pod["metadata"]["uid"]
            for pod in pods
            if pod["spec"].get("nodeName") and "fills" in pod["metadata"]["labels"]
        }

    async def add_pod(self, policy):
        extended = {"limits": {"telemetry/scheduling": "1"}} if policy else {}
        resources = {"requests": FULL["requests"], **extended}
        container = {"name": "c", "image": "none", "resources": resources}
        chosen = {"priorityClassName": self.priorities["high"], "containers": [container]}
        await self.world.add_pod("urgent", policy, **chosen)

    async def pod(self):
        return await self.world.client.get(PODS, "urgent", self.world.namespace)

    async def calls(self):
        """How often kube-scheduler called the preempt verb."""
        return await self.world.evaluator.metric(CALLS) or 0

    async def try_again(self, node):
        """Have the pod tried some more times: a node that grows may have room for it."""
        for cpu in ("8100m", "8200m", "8300m"):
            before = await self.calls()
            await self.grow(node, cpu)

            async def called(before=before):
                return await self.calls() > before

            await self.world.eventually(called)

    async def grow(self, node, cpu):
        more = {"status": {"allocatable": {"cpu": cpu}}}
        await self.world.client.patch(
            NODES, node, more, subresource="status", content_type=STRATEGIC
        )


@pytest.fixture
async def crowd(world, priorities):
    crowd = Crowd(world, priorities)
    yield crowd
    for one in (await world.client.list(REPLICASETS, world.namespace)).items:
        with contextlib.suppress(ApiError):
            await world.client.delete(REPLICASETS, one["metadata"]["name"], world.namespace)


async def refused(crowd):
    """Wait until kube-scheduler reports that the pod fits nowhere."""

    async def told():
        conditions = (await crowd.pod()).get("status", {}).get("conditions", [])
        return any(one.get("reason") == "Unschedulable" for one in conditions)

    await crowd.world.eventually(told)


@pytest.mark.parametrize("names_only", [True, False], ids=["names only", "whole nodes"])
async def test_no_pod_is_deleted_on_a_node_that_the_policy_refuses(
    world, crowd, tmp_path, names_only
):
    hot, *others = [await world.add_node(name) for name in ("hot", "b", "c")]
    policy = await world.add_policy("demo", dontschedule=["health Equals 2"])
    world.fleet.say(hot, health=2)
    for node in others:
        world.fleet.say(node, health=0)
    await world.start()
    scheduler = world.plane.scheduler(world.evaluator.extender, tmp_path, names_only=names_only)
    async with replica_sets(world.plane), scheduler:
        await crowd.fill(hot, "low")
        for node in others:
            await crowd.fill(node, "top")
        before = await crowd.full()
        await crowd.add_pod(policy)
        await refused(crowd)
        await crowd.try_again(hot)
        assert await crowd.running() == before
        assert not (await crowd.pod())["status"].get("nominatedNodeName")


@pytest.mark.parametrize("names_only", [True, False], ids=["names only", "whole nodes"])
async def test_preemption_takes_the_node_that_the_policy_permits(
    world, crowd, tmp_path, names_only
):
    hot, well, other = [await world.add_node(name) for name in ("hot", "well", "c")]
    policy = await world.add_policy("demo", dontschedule=["health Equals 2"])
    world.fleet.say(hot, health=2)
    for node in (well, other):
        world.fleet.say(node, health=0)
    await world.start()
    scheduler = world.plane.scheduler(world.evaluator.extender, tmp_path, names_only=names_only)
    async with replica_sets(world.plane), scheduler:
        for node, priority in ((hot, "low"), (well, "low"), (other, "top")):
            await crowd.fill(node, priority)
        before = await crowd.full()
        await crowd.add_pod(policy)

        async def placed():
            return (await crowd.pod())["spec"].get("nodeName")

        assert await world.eventually(placed) == well
        assert await crowd.running() == {node: before[node] for node in (hot, other)}


async def test_missing_preempt_verb_is_a_problem_of_the_policy(world, crowd, tmp_path):
    """kube-scheduler deletes pods on the refused node in vain, and nominates it for moments only."""
    hot, *others = [await world.add_node(name) for name in ("hot", "b", "c")]
    policy = await world.add_policy("demo", dontschedule=["health Equals 2"])
    world.fleet.say(hot, health=2)
    for node in others:
        world.fleet.say(node, health=0)
    await world.start()
    scheduler = world.plane.scheduler(world.evaluator.extender, tmp_path, preempt=False)
    async with replica_sets(world.plane), scheduler:
        await crowd.fill(hot, "low")
        for node in others:
            await crowd.fill(node, "top")
        await crowd.full()
        await crowd.add_pod(policy)

        def is_said(status):
            return f"nominated to a node that the policy refuses (urgent to {hot})" in str(status)

        cpu = itertools.count(8001)

        async def said():
            await crowd.grow(hot, f"{next(cpu)}m")  # it may have room now: the pod is tried again
            found = await world.client.get(POLICIES, policy, world.namespace)
            return found.get("status") if is_said(found.get("status")) else None

        status = await eventually(said, every=0.2)
        assert "plimsoll configure-scheduler --check" in str(status)


async def test_preemption_prefers_pods_without_an_exhausted_budget(world, crowd, tmp_path):
    guarded, well, other = [await world.add_node(name) for name in ("guarded", "well", "c")]
    async with replica_sets(world.plane), world.plane.scheduler(None, tmp_path):
        # Without the budget the pod of the lowest priority would leave.
        for node, priority in ((guarded, "low"), (well, "mid"), (other, "top")):
            await crowd.fill(node, priority)
        before = await crowd.full()
        meta = {"name": "b", "namespace": world.namespace, "labels": {world.marks: world.suffix}}
        spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"fills": guarded}}}
        body = {"apiVersion": BUDGETS.api_version, "kind": "PodDisruptionBudget"}
        await world.client.create(BUDGETS, {**body, "metadata": meta, "spec": spec})
        await crowd.add_pod("")

        async def placed():
            return (await crowd.pod())["spec"].get("nodeName")

        assert await world.eventually(placed) == well
        assert await crowd.running() == {node: before[node] for node in (guarded, other)}


@pytest.mark.features("node_actions")
async def test_tainted_node_is_no_candidate_and_the_extender_is_not_called(world, crowd, tmp_path):
    hot, *others = [await world.add_node(name) for name in ("hot", "b", "c")]
    scheduler = world.plane.scheduler(world.evaluator.extender, tmp_path)
    async with replica_sets(world.plane), scheduler:
        await crowd.fill(hot, "low")
        for node in others:
            await crowd.fill(node, "top")
        before = await crowd.full()
        world.fleet.say(hot, health=2)
        for node in others:
            world.fleet.say(node, health=0)
        policy = await world.add_policy("demo", dontschedule=["health Equals 2"], annotations=TAINT)
        await world.start("--taints", "--maxActedNodes=100%")

        async def tainted():
            return await world.evaluator.metric('plimsoll_taint_writes_total{result="ok"}')

        await world.eventually(tainted)
        await crowd.add_pod(policy)
        await refused(crowd)
        assert await crowd.running() == before
        assert not (await crowd.pod())["status"].get("nominatedNodeName")
        assert not await crowd.calls()

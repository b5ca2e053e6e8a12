"""Pods of a violated policy are evicted through the eviction API, and its rejections are respected."""

import pytest

from sandbox.client.client import ApiError
from sandbox.client.objects import EVENTS, PODS, ObjectKind

pytestmark = pytest.mark.e2e

BUDGETS = ObjectKind("poddisruptionbudgets", "policy/v1")


@pytest.fixture
async def demo(world):
    """A policy, a violating node with a pod, and another node."""
    sick, well = await world.add_node("sick"), await world.add_node("well")
    policy = await world.add_policy("demo", deschedule=["health Equals 2"])
    world.fleet.say(sick, health=2)
    world.fleet.say(well, health=0)
    await world.add_pod("web", policy, sick)
    return policy


def counter(world, policy, result):
    labels = f'namespace="{world.namespace}",policy="{policy}",result="{result}"'
    return f"plimsoll_evictions_total{{{labels}}}"


async def is_leaving(world, pod):
    try:
        found = await world.client.get(PODS, pod, world.namespace)
    except ApiError as error:
        return error.status == 404
    return "deletionTimestamp" in found["metadata"]


async def forbid(world):
    """A budget that allows no eviction. Without a controller the test writes its status."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": "web",
            "namespace": world.namespace,
            "labels": {world.marks: world.suffix},
        },
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    made = await world.client.create(BUDGETS, body)
    status = {
        "observedGeneration": made["metadata"]["generation"],
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    await world.client.patch(
        BUDGETS, "web", {"status": status}, world.namespace, subresource="status"
    )


async def test_evicted_pod_has_an_event_with_the_reason(world, demo):
    await world.start()
    await world.eventually(lambda: is_leaving(world, "web"))

    async def told():
        events = (await world.client.list(EVENTS, world.namespace)).items
        return [one for one in events if one["reason"] == "PolicyViolated"]

    (event,) = await world.eventually(told)
    assert f"violating {demo}: health Equals 2" in event["message"]
    assert event["involvedObject"]["name"] == "web"


async def test_disruption_budget_delays_the_eviction(world, demo):
    # A pod counts as running only once its kubelet reports so; a pending one may always be evicted.
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await world.client.patch(PODS, "web", {"status": ready}, world.namespace, subresource="status")
    await forbid(world)
    await world.start()

    async def refused():
        return await world.evaluator.metric(counter(world, demo, "refused"))

    await world.eventually(refused)
    assert not await is_leaving(world, "web")
    await world.client.delete(BUDGETS, "web", world.namespace)
    await world.eventually(lambda: is_leaving(world, "web"))

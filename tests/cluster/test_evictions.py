"""Pods of a violated policy are evicted through the eviction API, and its rejections are respected."""

import contextlib
import json

import pytest

from kubectl_plimsoll import pods, views
from kubectl_plimsoll.table import Style
from sandbox.client.client import STRATEGIC, ApiError
from sandbox.client.objects import EVENTS, NODES, PODS, ObjectKind

pytestmark = [pytest.mark.e2e, pytest.mark.features("evictions", "node_actions")]

CONFIG_MAPS = ObjectKind("configmaps", "v1")
BUDGETS = ObjectKind("poddisruptionbudgets", "policy/v1")
PRIORITIES = ObjectKind("priorityclasses", "scheduling.k8s.io/v1", namespaced=False)


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


async def run_pod(world, name, policy, node, app="web"):
    """A running pod: a budget counts no other, and a pending one may always be evicted."""
    await world.add_pod(name, policy, node, app=app)
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await world.client.patch(PODS, name, {"status": ready}, world.namespace, subresource="status")


async def forbid(world, name="web", app="web", pods=1):
    """A budget that needs all `pods`. Without a controller the test writes its status."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": name,
            "namespace": world.namespace,
            "labels": {world.marks: world.suffix},
        },
        "spec": {"minAvailable": pods, "selector": {"matchLabels": {"app": app}}},
    }
    made = await world.client.create(BUDGETS, body)
    status = {
        "observedGeneration": made["metadata"]["generation"],
        "disruptionsAllowed": 0,
        "currentHealthy": pods,
        "desiredHealthy": pods,
        "expectedPods": pods,
    }
    await world.client.patch(
        BUDGETS, name, {"status": status}, world.namespace, subresource="status"
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


def stay(status):
    """What the status says about pods that stay; empty if none does."""
    found = [one for one in status["conditions"] if one["type"] == "PodsStay"]
    return found[0]["message"] if found and found[0]["status"] == "True" else ""


@pytest.mark.parametrize("budgets", [1, 2])
async def test_pods_behind_budgets_do_not_hold_up_the_pods_beside_them(world, demo, budgets):
    """429 of one budget, 500 of two."""
    for number in range(budgets):
        await forbid(world, f"db-{number}", "database", pods=2)
    sick = world.name("sick")
    for number in range(2):
        await run_pod(world, f"a-database-{number}", demo, sick, "database")
    await run_pod(world, "z-web", demo, sick)
    await world.start("--evictLimit=3")
    for pod in ("web", "z-web"):
        await world.eventually(lambda pod=pod: is_leaving(world, pod))
    why = "PodDisruptionBudget db-0 permits no eviction" if budgets == 1 else "more than one"
    named = ("a-database-0", "a-database-1", why)
    await world.status(demo, lambda found: all(word in stay(found) for word in named))

    async def noticed():
        events = (await world.client.list(EVENTS, world.namespace)).items
        return [one for one in events if one["reason"] == "NotEvicted"]

    for event in await world.eventually(noticed):
        assert why in event["message"]
    for number in range(budgets):
        await world.client.delete(BUDGETS, f"db-{number}", world.namespace)
    await world.eventually(lambda: is_leaving(world, "a-database-0"))


@pytest.mark.features("pages")
async def test_pods_that_nothing_recreates_stay_and_are_named(world, demo):
    sick = world.name("sick")
    await world.add_pod("bare", demo, sick, bare=True)
    await world.start()
    await world.eventually(lambda: is_leaving(world, "web"))
    status = await world.status(demo, stay)
    assert stay(status) == f"1 pod ({world.namespace}/bare) stay: nothing would recreate them"
    assert not await is_leaving(world, "bare")
    name, why = f"{world.namespace}/bare", "nothing would recreate them"
    _, policy = await world.evaluator.get(f"/explain/{world.namespace}/{demo}")
    assert {"why": why, "pods": [name]} in json.loads(policy)["podsStay"]
    assert "pods with a policy only" in json.loads(policy)["successors"]
    _, pod = await world.evaluator.get(f"/explain?pod={name}")
    assert json.loads(pod)["notEvicted"] == why
    plain = Style(coloured=False)
    assert f"stay:     {name}: {why}" in views.policy(json.loads(policy), plain, wide=False)
    assert f"not evicted:             {why}" in pods.pod(json.loads(pod), plain, wide=False)


async def test_new_leader_knows_the_evictions_of_the_last_one(world, demo):
    """Case 21: it waits for no hour, and evicts no pod that the last leader's evictions do not permit."""
    await world.start("--evictPeriod=10m")
    await world.eventually(lambda: is_leaving(world, "web"))
    await world.add_pod("web-2", demo, world.name("sick"), app="other")

    async def stored():
        with contextlib.suppress(ApiError):
            found = await world.client.get(CONFIG_MAPS, "plimsoll-evictions", world.namespace)
            return f"{world.namespace}/{demo}" in found["data"]["evictions.json"]

    await world.eventually(stored)
    await world.evaluator.stop()
    await world.start("--evictPeriod=10m")
    await world.status(demo, lambda found: found["compliance"] == "Violated")
    assert not await is_leaving(world, "web-2")
    await world.evaluator.stop()
    await world.start("--evictPeriod=1s")
    await world.eventually(lambda: is_leaving(world, "web-2"))


async def test_pods_leave_no_more_nodes_than_the_limit(world):
    nodes = [await world.add_node(f"n{number}") for number in range(5)]
    policy = await world.add_policy(
        "demo", deschedule=["health Equals 2"], annotations={"plimsoll.io/max-nodes": "2"}
    )
    for number, node in enumerate(nodes):
        world.fleet.say(node, health=2 if number < 4 else 0)
        await world.add_pod(f"web-{number}", policy, node)
    await world.start("--evictLimit=9", "--maxActedNodes=100%")
    for number in range(2):
        await world.eventually(lambda number=number: is_leaving(world, f"web-{number}"))
    status = await world.status(policy, lambda found: "NodeLimitReached" in str(found))
    limit = next(c for c in status["conditions"] if c["type"] == "NodeLimitReached")
    assert limit["message"] == (
        "acts on 2 nodes and not on 2 more: the limit is plimsoll.io/max-nodes, 2 of 5 that it can match"
    )

    async def counted():
        return await world.evaluator.metric(counter(world, policy, "ok")) == 2

    await world.eventually(counted)
    for number in (2, 3):
        assert not await is_leaving(world, f"web-{number}")
    world.fleet.say(nodes[0], health=0)
    await world.eventually(lambda: is_leaving(world, "web-2"))
    assert not await is_leaving(world, "web-3")


@pytest.mark.parametrize("kind", ["DrainInProgress", "MaintenancePlanned"])
async def test_no_pod_is_evicted_for_a_node_that_is_about_to_be_drained(world, demo, kind):
    well = world.name("well")
    body = {"type": kind, "status": "True", "reason": "Test", "message": "for a test"}
    await world.client.patch(
        NODES,
        well,
        {"status": {"conditions": [body]}},
        subresource="status",
        content_type=STRATEGIC,
    )
    await world.start()
    await world.status(demo, lambda found: found["compliance"] == "Violated")
    other = await world.add_node("other")
    await world.client.patch(NODES, other, {"spec": {"unschedulable": True}})
    assert not await is_leaving(world, "web")
    body["status"] = "False"
    await world.client.patch(
        NODES,
        well,
        {"status": {"conditions": [body]}},
        subresource="status",
        content_type=STRATEGIC,
    )
    await world.eventually(lambda: is_leaving(world, "web"))


def kept_apart(app):
    """Required anti-affinity against pods of an app, and the pods of it."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"app": app, "affinity": {"podAntiAffinity": required}}


async def test_pod_whose_successor_could_not_run_stays_until_it_could(world, demo):
    """Case 08: a replica on each node, kept apart by required anti-affinity."""
    for number, node in enumerate(("sick", "well")):
        name = world.name(node)
        await world.add_pod(f"a-quorum-{number}", demo, name, **kept_apart("quorum"))
    await world.start("--evictLimit=9")
    await world.eventually(lambda: is_leaving(world, "web"))
    status = await world.status(demo, stay)
    assert stay(status) == (
        f"1 pod ({world.namespace}/a-quorum-0) stay: "
        "required anti-affinity keeps their successors from every other node"
    )
    assert not await is_leaving(world, "a-quorum-0")
    await world.client.delete(PODS, "a-quorum-1", world.namespace, grace=0)
    await world.eventually(lambda: is_leaving(world, "a-quorum-0"))


async def test_pod_of_the_lowest_priority_leaves_first(world, demo):
    """Case 10: by name, the important one would be the first; "web" is younger than both."""
    await world.client.delete(PODS, "web", world.namespace, grace=0)
    name = world.name("payments")
    body = {"apiVersion": PRIORITIES.api_version, "kind": "PriorityClass", "value": 1_000_000}
    await world.client.create(PRIORITIES, {**body, "metadata": {"name": name}})
    sick = world.name("sick")
    try:
        await world.add_pod("z-batch", demo, sick)
        await world.add_pod("a-payments", demo, sick, priorityClassName=name)
        await world.start("--evictPeriod=10m")
        left = await world.eventually(lambda: first_to_leave(world, "z-batch", "a-payments"))
    finally:
        await world.client.delete(PRIORITIES, name)
    assert left == "z-batch"


async def first_to_leave(world, *pods):
    """The first of the pods that leaves; None while none does."""
    for pod in pods:
        if await is_leaving(world, pod):
            return pod
    return None


@pytest.mark.features("pages")
async def test_pod_that_arrived_after_a_condition_leaves_at_once(world):
    """Case 22: nothing else changes in the cluster, and the reporter of the condition sends no heartbeats."""
    sick, _well = await world.add_node("sick"), await world.add_node("well")
    policy = await world.add_policy("demo", deschedule=["node_condition_KernelDeadlock Equals 1"])
    for node, status in ((sick, "True"), (world.name("well"), "False")):
        body = {
            "type": "KernelDeadlock",
            "status": status,
            "reason": "Test",
            "message": "for a test",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
        }
        patch = {"status": {"conditions": [body]}}
        await world.client.patch(NODES, node, patch, subresource="status", content_type=STRATEGIC)
    await world.start()
    await world.labelled(sick, **{policy: "violating"})
    await world.add_pod("web", policy, sick)

    async def decided():
        if await is_leaving(world, "web"):
            return "evicted"
        _, page = await world.evaluator.get(f"/explain/{world.namespace}/pods/web")
        return json.loads(page).get("notEvicted") if page else None

    assert await world.eventually(decided) == "evicted"

"""The sandbox's Eviction API answers as kube-apiserver does, whatever the budgets and their statuses."""

import contextlib

import pytest

from sandbox.apiserver.errors import ApiError as Refusal
from sandbox.apiserver.kinds.disruption import check_eviction, matching
from sandbox.client.client import ApiError
from sandbox.client.objects import BUDGETS, PODS
from sandbox.envtest import ControlPlane, NoControlPlaneError

pytestmark = pytest.mark.e2e

ENOUGH = {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3}
USED_UP = ENOUGH | {"disruptionsAllowed": 0, "currentHealthy": 2}
BELOW = USED_UP | {"currentHealthy": 1}
STALE = {"observedGeneration": 0}
ALWAYS = {"unhealthyPodEvictionPolicy": "AlwaysAllow"}
IF_HEALTHY = {"unhealthyPodEvictionPolicy": "IfHealthyBudget"}
READY, UNREADY = ("Running", "True"), ("Running", "False")
CASES = {
    "no budget": (READY, []),
    "allowed": (READY, [({}, ENOUGH)]),
    "used up": (READY, [({}, USED_UP)]),
    "of another app": (READY, [({"selector": {"matchLabels": {"app": "db"}}}, USED_UP)]),
    "selects all": (READY, [({"selector": {}}, USED_UP)]),
    "two": (READY, [({}, ENOUGH), ({}, ENOUGH)]),
    "two, pending": (("Pending", "False"), [({}, USED_UP), ({}, USED_UP)]),
    "two, unready": (UNREADY, [(ALWAYS, ENOUGH), (ALWAYS, ENOUGH)]),
    "stale": (READY, [({}, ENOUGH | STALE)]),
    "stale and used up": (READY, [({}, USED_UP | STALE)]),
    "ready, always": (READY, [(ALWAYS, USED_UP)]),
    "unready": (UNREADY, [({}, USED_UP)]),
    "unready below": (UNREADY, [({}, BELOW)]),
    "unready, if healthy, below": (UNREADY, [(IF_HEALTHY, BELOW)]),
    "unready, always": (UNREADY, [(ALWAYS, BELOW)]),
    "unready, stale": (UNREADY, [({}, USED_UP | STALE)]),
    "unready, below, stale": (UNREADY, [({}, BELOW | STALE)]),
    "unready, always, stale": (UNREADY, [(ALWAYS, BELOW | STALE)]),
    "unready, none desired": (UNREADY, [({}, BELOW | {"currentHealthy": 0, "desiredHealthy": 0})]),
    "failed": (("Failed", "False"), [({}, USED_UP)]),
}


@pytest.fixture
def real(plane):
    if not isinstance(plane.server, ControlPlane):
        pytest.skip("compared with a real API server without controllers")


async def set_state(world, name, state):
    phase, ready = state
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
    await world.client.patch(PODS, name, {"status": status}, world.namespace, subresource="status")


async def add_budget(world, name, spec):
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": world.namespace},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}} | spec,
    }
    return await world.client.create(BUDGETS, body)


async def evicted(world, name, **options):
    """What the API server answers: code, reason, message, and the messages of the causes."""
    path = f"/api/v1/namespaces/{world.namespace}/pods/{name}/eviction"
    meta = {"name": name, "namespace": world.namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    try:
        await world.client.request("POST", path, body={**body, "deleteOptions": options})
    except ApiError as error:
        return error.status, error.reason, error.message, error.causes
    return 201, "", "", ()


def decided(pod, budgets):
    """What the sandbox answers with the same objects."""
    try:
        check_eviction(pod, matching(budgets, pod))
    except Refusal as error:
        status = error.status()
        causes = status.get("details", {}).get("causes", ())
        reason = status.get("reason", "Unknown")
        return error.code, reason, error.message, tuple(one["message"] for one in causes)
    return 201, "", "", ()


@pytest.mark.parametrize("case", CASES)
async def test_eviction_is_answered_as_by_kube_apiserver(real, world, case):
    state, budgets = CASES[case]
    await world.add_pod("web")
    await set_state(world, "web", state)
    for number, (spec, status) in enumerate(budgets):
        made = await add_budget(world, f"b-{number}", spec)
        whole = {"observedGeneration": made["metadata"]["generation"]} | status
        await world.client.patch(
            BUDGETS, f"b-{number}", {"status": whole}, world.namespace, subresource="status"
        )
    pod = await world.client.get(PODS, "web", world.namespace)
    found = (await world.client.list(BUDGETS, world.namespace)).items
    assert decided(pod, found) == await evicted(world, "web", dryRun=["All"])


@contextlib.asynccontextmanager
async def disruption_controller(world):
    """kube-controller-manager's controller of budgets; the sandbox has its own."""
    if not isinstance(world.plane.server, ControlPlane):
        yield
        return
    try:
        with world.plane.server.controllers("disruption-controller") as is_up:
            await world.eventually(is_up)
            yield
    except NoControlPlaneError as error:
        pytest.skip(str(error))


async def test_budget_follows_pods_and_edits(world):
    for number in range(3):
        await world.add_pod(f"web-{number}", bare=True)
        await set_state(world, f"web-{number}", READY)
    async with disruption_controller(world):
        await add_budget(world, "web", {})

        async def settled(generation, **expected):
            status = (await world.client.get(BUDGETS, "web", world.namespace)).get("status", {})
            found = {name: status.get(name) for name in expected}
            return status.get("observedGeneration") == generation and found == expected

        await world.eventually(lambda: settled(1, **ENOUGH))
        await set_state(world, "web-0", UNREADY)
        await world.eventually(lambda: settled(1, **USED_UP))
        assert (await evicted(world, "web-1"))[0] == 429
        patch = {"spec": {"minAvailable": 1}}
        await world.client.patch(BUDGETS, "web", patch, world.namespace)
        await world.eventually(
            lambda: settled(2, **(USED_UP | {"disruptionsAllowed": 1, "desiredHealthy": 1}))
        )
        assert (await evicted(world, "web-1"))[0] == 201
        await world.eventually(
            lambda: settled(
                2,
                disruptionsAllowed=0,
                currentHealthy=1,
                desiredHealthy=1,
                expectedPods=2,
            )
        )

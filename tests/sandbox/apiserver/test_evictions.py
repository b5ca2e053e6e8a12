"""Evictions and disruption budgets."""

import pytest

from sandbox.apiserver.errors import ApiError
from sandbox.apiserver.kinds.disruption import check_eviction

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def budget(name="pdb", app="web", **spec):
    selector = {"matchLabels": {"app": app}}
    return {"metadata": {"name": name}, "spec": {"selector": selector, **spec}}


async def running(api, pod, name, *, ready=True):
    """A running pod of app web."""
    await api.post(PODS, pod(name, labels={"app": "web"}, spec={"nodeName": "n"}))
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    status = {"phase": "Running", "conditions": [condition]}
    await api.patch(f"{PODS}/{name}/status", {"status": status})


async def evict(api, name, **options):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **options}
    return await api.post(f"{PODS}/{name}/eviction", body)


async def status(api, name="pdb"):
    found = (await api.get(f"{BUDGETS}/{name}")).body["status"]
    return {
        key: found[key]
        for key in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    }


async def test_eviction_without_a_budget_is_a_delete(api, pod):
    await running(api, pod, "a")
    reply = await evict(api, "a")
    assert (reply.code, reply.body["status"]) == (201, "Success")
    body = (await api.get(f"{PODS}/a")).body
    assert body["metadata"]["deletionTimestamp"]
    reasons = [item.get("reason") for item in body["status"]["conditions"]]
    assert "EvictionByEvictionAPI" in reasons


async def test_zero_grace_period_deletes_at_once(api, pod):
    await running(api, pod, "a")
    await evict(api, "a", deleteOptions={"gracePeriodSeconds": 0})
    assert (await api.get(f"{PODS}/a")).code == 404


@pytest.mark.parametrize(
    ("spec", "healthy", "expected"),
    [
        ({"minAvailable": 1}, 3, (2, 3, 1, 3)),
        ({"minAvailable": "50%"}, 3, (1, 3, 2, 3)),
        ({"maxUnavailable": 1}, 3, (1, 3, 2, 3)),
        ({"maxUnavailable": "34%"}, 3, (2, 3, 1, 3)),
        ({"maxUnavailable": 0}, 2, (0, 2, 2, 2)),
        ({"minAvailable": 5}, 2, (0, 2, 5, 2)),
    ],
)
async def test_budget_status_follows_its_pods(api, pod, spec, healthy, expected):
    await api.post(BUDGETS, budget(**spec))
    for index in range(healthy):
        await running(api, pod, f"p{index}")
    assert tuple((await status(api)).values()) == expected


async def test_eviction_beyond_the_budget_is_rejected_with_429(api, pod):
    await running(api, pod, "a")
    await running(api, pod, "b")
    await api.post(BUDGETS, budget(minAvailable=1))
    assert (await evict(api, "a")).code == 201
    assert (await status(api))["disruptionsAllowed"] == 0
    reply = await evict(api, "b")
    assert (reply.code, reply.reason) == (429, "TooManyRequests")
    assert reply.body["message"] == (
        "Cannot evict pod as it would violate the pod's disruption budget."
    )
    assert reply.causes == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget pdb needs 1 healthy pods and has 1 currently",
            "field": "",
        }
    ]
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/b")).body["metadata"]


async def test_missing_pod_is_not_found(api):
    assert (await evict(api, "a")).code == 404


async def test_two_budgets_for_a_pod_are_an_error(api, pod):
    await running(api, pod, "a")
    for name in ("one", "two"):
        await api.post(BUDGETS, budget(name, minAvailable=0))
    reply = await evict(api, "a")
    assert (reply.code, reply.body["message"]) == (
        500,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
    )
    assert "reason" not in reply.body


@pytest.mark.parametrize(("policy", "may_go"), [("IfHealthyBudget", False), ("AlwaysAllow", True)])
async def test_unready_pod_below_the_budget_may_go_if_its_policy_says_so(api, pod, policy, may_go):
    await running(api, pod, "a")
    await running(api, pod, "b", ready=False)
    await api.post(BUDGETS, budget(minAvailable=2, unhealthyPodEvictionPolicy=policy))
    assert (await evict(api, "a")).code == 429
    assert (await evict(api, "b")).code == (201 if may_go else 429)


def test_budget_with_a_stale_status_permits_no_eviction(pod):
    """The sandbox's own controller is never behind; one that is replaced may be."""
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    stale = budget() | {"status": {"observedGeneration": 1, "disruptionsAllowed": 5}}
    stale["metadata"]["generation"] = 2
    with pytest.raises(ApiError) as raised:
        check_eviction(pod("a") | {"status": ready}, [stale])
    (cause,) = raised.value.causes
    assert cause.message == "The disruption budget pdb is still being processed by the server."
    stale["status"]["observedGeneration"] = 2
    check_eviction(pod("a") | {"status": ready}, [stale])


async def test_pending_pod_is_no_disruption(api, pod):
    await api.post(PODS, pod("a", labels={"app": "web"}))
    await api.post(BUDGETS, budget(minAvailable=1))
    assert (await evict(api, "a")).code == 201


async def test_unready_pod_is_evicted_while_the_budget_is_met(api, pod):
    await running(api, pod, "a")
    await running(api, pod, "b", ready=False)
    await api.post(BUDGETS, budget(minAvailable=1))
    assert (await evict(api, "b")).code == 201
    assert (await evict(api, "a")).code == 429


async def test_dry_run_evicts_nothing(api, pod):
    await running(api, pod, "a")
    assert (await evict(api, "a", deleteOptions={"dryRun": ["All"]})).code == 201
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/a")).body["metadata"]


async def test_expected_pods_are_those_of_the_owner(api, pod):
    path = "/apis/apps/v1/namespaces/default/replicasets"
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod()["spec"]}
    spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
    owner = (await api.post(path, {"metadata": {"name": "web"}, "spec": spec})).body
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    await api.post(PODS, pod("a", labels=labels, ownerReferences=[reference]))
    await api.post(BUDGETS, budget(maxUnavailable="50%"))
    found = await status(api)
    assert (found["expectedPods"], found["desiredHealthy"]) == (4, 2)


async def test_budget_needs_exactly_one_bound(api):
    reply = await api.post(BUDGETS, budget(minAvailable=1, maxUnavailable=1))
    assert reply.code == 422

"""The API server is unreachable for longer than the stale time: requests are answered, staleness reported, state recovered."""

import itertools

import pytest

pytestmark = pytest.mark.e2e

POLICY = "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies/demo"


@pytest.fixture(params=["one replica", "a leader"])
def flags(request, flags):
    if request.param == "one replica":
        return flags
    lease = ("--leaseDuration=3s", "--renewDeadline=2s", "--retryPeriod=500ms")
    return (*flags, "--leaderElect", "--leaseNamespace=default", *lease)


def writes(world):
    """The number of writes that reached the proxy, without leases."""
    return sum(
        1 for method, path, _ in world.proxy.asked if method != "GET" and "lease" not in path
    )


@pytest.mark.parametrize("how", ["nothing listens", "nothing is answered"])
async def test_outage_is_survived_reported_and_recovered_from(world, how):
    if how == "nothing listens":
        await world.proxy.stop()
    else:
        world.proxy.freeze()
    text = await world.until(world.stale)
    assert text.startswith("waiting for updates of ")
    assert "nodes from the API server (none for " in text
    assert (await world.get("/healthz"))[0] == 200
    _, metrics = await world.get("/metrics")
    assert "plimsoll_ready 0.0" in metrics

    # Readings of agents still count, and the scheduler's answers follow them.
    world.nodes["node-b"].value = 1.0
    await world.until(lambda: world.refused() == {"node-a", "node-b"})
    before = writes(world)
    await world.answered(30)
    assert writes(world) == before, "a stale cache must cause no write"
    assert {status for status, _ in world.answers} == {200}

    # Meanwhile the policy is edited, one node is replaced, and another is added.
    await world.rule(3)
    await world.api.delete("/api/v1/nodes/node-c")
    await world.api.node("node-c")
    await world.api.node("node-d")
    world.nodes["node-c"].value = 3.0

    if how == "nothing listens":
        await world.proxy.start()
    else:
        world.proxy.thaw()
    await world.until(world.ready)
    await world.until(lambda: world.refused() == {"node-c"})
    await world.until(lambda: world.labelled() == {"node-c"})
    # Pods wait (503) at most from when the replaced node is known, maybe after the new policy, until its first report.
    await world.until(lambda: world.answers[-1][0] == 200)
    statuses = [status for status, _ in world.answers]
    assert set(statuses) <= {200, 503}
    assert [status for status, _ in itertools.groupby(statuses)] in ([200], [200, 503, 200])
    assert world.labels["node-a"][-2:] == ["violating", None], "removed once, by the new rule"
    assert world.labels["node-b"] in ([None], [None, "violating", None])
    assert "node-d" not in world.labelled()
    _, metrics = await world.get("/metrics")
    assert "plimsoll_ready 1.0" in metrics
    # The status reflects the current state, not that of the start of the outage.
    await world.api.seen(
        POLICY, lambda policy: policy.get("status", {}).get("observedGeneration") == 2
    )


async def test_policy_deleted_in_an_outage_leaves_no_label(world):
    await world.proxy.stop()
    await world.until(world.stale)
    await world.api.delete(POLICY)
    await world.proxy.start()
    await world.until(lambda: world.refused() == set())
    await world.until(lambda: not world.labelled())
    assert world.labels["node-a"][-2:] == ["violating", None]


async def test_short_outage_has_no_effect(world):
    """Not stale, still ready, and nothing is written again."""
    node = await world.api.get("/api/v1/nodes/node-a")
    await world.proxy.stop()
    await world.answered(5)
    await world.proxy.start()
    world.nodes["node-b"].value = 1.0
    await world.until(lambda: "node-b" in world.labelled())
    assert await world.api.get("/api/v1/nodes/node-a") == node

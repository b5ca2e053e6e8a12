"""Simulated nodes look and behave like real ones."""

from plimsoll import quantity
from sandbox.client.objects import LEASES, NODES
from sandbox.controllers.nodes import LEASE_NAMESPACE, Nodes


async def test_registered_nodes_are_ready_with_capacity(client):
    await Nodes(client, ["node-a", "node-b"], clock=lambda: 0.0).register()
    listing = await client.list(NODES)
    assert [one["metadata"]["name"] for one in listing.items] == ["node-a", "node-b"]
    node = listing.items[1]
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-b"
    assert {one["type"]: one["status"] for one in node["status"]["conditions"]}["Ready"] == "True"
    allocatable = node["status"]["allocatable"]
    assert quantity.exact(allocatable["telemetry/scheduling"]) == 10_000
    assert {"cpu", "memory", "pods"} <= set(allocatable)
    addresses = {one["status"]["addresses"][0]["address"] for one in listing.items}
    assert len(addresses) == 2


async def test_heartbeat_changes_only_times(client):
    now = 0.0
    nodes = Nodes(client, ["node-a"], clock=lambda: now)
    await nodes.register()
    before = await client.get(NODES, "node-a")
    now = 10.0
    await nodes.beat("node-a")
    after = await client.get(NODES, "node-a")
    for one in before["status"]["conditions"]:
        assert one["lastHeartbeatTime"] == "1970-01-01T00:00:00Z"
        one["lastHeartbeatTime"] = "1970-01-01T00:00:10Z"
    assert after["status"] == before["status"]
    lease = await client.get(LEASES, "node-a", LEASE_NAMESPACE)
    assert lease["spec"]["renewTime"] == "1970-01-01T00:00:10.000000Z"


async def test_heartbeat_keeps_conditions_of_others(client):
    nodes = Nodes(client, ["node-a"])
    await nodes.register()
    node = await client.get(NODES, "node-a")
    node["status"]["conditions"].append({"type": "KernelDeadlock", "status": "True"})
    await client.update(NODES, node, subresource="status")
    await nodes.beat("node-a")
    conditions = (await client.get(NODES, "node-a"))["status"]["conditions"]
    assert {one["type"]: one["status"] for one in conditions}["KernelDeadlock"] == "True"

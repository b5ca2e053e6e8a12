"""Node conditions in both directions: read as metrics of policies, and written as actions of policies."""

import pytest

from sandbox.client.client import STRATEGIC
from sandbox.client.objects import NODES

pytestmark = pytest.mark.e2e


async def report_condition(world, node, status, kind="KernelDeadlock"):
    """Write a condition as node-problem-detector does: by a strategic merge patch of the status."""
    condition = {
        "type": kind,
        "status": status,
        "reason": "DockerHung",
        "message": "task docker:7 blocked for more than 120 seconds",
        "lastHeartbeatTime": "2026-11-22T10:00:00Z",
        "lastTransitionTime": "2026-11-22T09:00:00Z",
    }
    body = {"status": {"conditions": [condition]}}
    await world.client.patch(NODES, node, body, subresource="status", content_type=STRATEGIC)


async def test_condition_of_another_reporter_is_a_metric_of_policies(world):
    node, other = await world.add_node("a"), await world.add_node("b")
    policy = await world.add_policy("demo", deschedule=["node_condition_KernelDeadlock Equals 1"])
    await report_condition(world, other, "False")
    await report_condition(world, node, "True")
    await world.start()
    await world.labelled(node, **{policy: "violating"})
    await world.labelled(other)
    await report_condition(world, node, "Unknown")
    await world.labelled(node)
    await report_condition(world, other, "True")
    await world.labelled(other, **{policy: "violating"})
    _, page = await world.evaluator.get(f"/explain/{world.namespace}/{policy}")
    assert '"source":"node-conditions"' in page.replace(" ", "")

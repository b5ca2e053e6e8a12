"""Another client takes away what was written to a node, on an API server: few writes, and the status names it where it is known."""

import asyncio
import contextlib

import pytest

from sandbox.client.client import MERGE, ApiError
from sandbox.client.objects import NODES

pytestmark = [pytest.mark.e2e, pytest.mark.features("node_actions", "labels")]

ACTIONS = {
    "plimsoll.io/actions": "label,taint,condition",
    "plimsoll.io/taint-effect": "NoSchedule",
    "plimsoll.io/max-nodes": "100%",
}
OTHERS = [{"key": "rival.example.com/x", "effect": "PreferNoSchedule"}]


class Rival:
    """A client with a field manager of its own that undoes what a policy does to a node, whenever it appears."""

    def __init__(self, world, node, policy, what):
        self.client, self.node, self.policy, self.what = world.client, node, policy, what
        self.taint = f"plimsoll.io/{world.namespace}.{policy}"
        self.times = 0

    async def run(self):
        while True:
            node = await self.client.get(NODES, self.node)
            if body := getattr(self, self.what)(node):
                at = {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}}
                subresource = "/status" if "status" in body else ""
                path = f"/api/v1/nodes/{self.node}{subresource}?fieldManager=rival"
                body["metadata"] = body.get("metadata", {}) | at["metadata"]
                with contextlib.suppress(ApiError):  # it changed meanwhile
                    await self.client.request("PATCH", path, body=body, content_type=MERGE)
                    self.times += 1
            await asyncio.sleep(0.02)

    def _tainted(self, node):
        return any(one["key"] == self.taint for one in node["spec"].get("taints") or ())

    def taint_removed(self, node):
        return {"spec": {"taints": None}} if self._tainted(node) else None

    def taints_replaced(self, node):
        return {"spec": {"taints": OTHERS}} if self._tainted(node) else None

    def label_removed(self, node):
        labels = node["metadata"].get("labels", {})
        return {"metadata": {"labels": {self.policy: None}}} if self.policy in labels else None

    def label_changed(self, node):
        changed = node["metadata"].get("labels", {}).get(self.policy) == "violating"
        return {"metadata": {"labels": {self.policy: "fine"}}} if changed else None

    def _conditions(self, node):
        found = node["status"]["conditions"]
        kind = next((c["type"] for c in found if c["type"].startswith("plimsoll.io/")), "")
        return found, kind

    def condition_removed(self, node):
        found, kind = self._conditions(node)
        return {"status": {"conditions": [c for c in found if c["type"] != kind]}} if kind else None

    def condition_changed(self, node):
        found, kind = self._conditions(node)
        if not any(c["type"] == kind and c["status"] == "True" for c in found):
            return None
        theirs = [
            c | ({"status": "False", "reason": "R"} if c["type"] == kind else {}) for c in found
        ]
        return {"status": {"conditions": theirs}}


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("taint_removed", "another client after each write"),
        ("taints_replaced", "field manager rival after each write"),
        ("label_removed", "another client after each write"),
        ("label_changed", "is owned by another field manager, rival (value 'fine'): not set"),
        ("condition_removed", "another client after each write"),
        ("condition_changed", "is owned by field manager rival"),
    ],
)
async def test_client_that_undoes_writes_is_named_where_it_is_known_and_written_against_less(
    world, what, said
):
    node, other = await world.add_node("a"), await world.add_node("b")
    world.fleet.say(node, health=2)
    world.fleet.say(other, health=0)
    policy = await world.add_policy("demo", deschedule=["health Equals 2"], annotations=ACTIONS)
    await world.start("--taints", "--conditions", "--maxActedNodes=100%")
    rival = Rival(world, node, policy, what)
    task = asyncio.create_task(rival.run())
    try:
        status = await world.status(policy, lambda status: said in str(status))
    finally:
        task.cancel()
        await asyncio.wait([task])
    assert 1 <= rival.times <= 8, status
    for kind in ("taint", "label", "condition"):
        name = f'plimsoll_{kind}_writes_total{{result="ok"}}'
        assert (await world.evaluator.metric(name) or 0) <= 8

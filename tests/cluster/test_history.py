"""The history and Events of nodes on an API server: every replica shows the same actions, and kubectl shows them on the node."""

import asyncio
import json
import shutil
import subprocess

import pytest

from sandbox import manifests
from sandbox.client.objects import SECRETS, in_namespace
from tests.cluster.replicas import SHORT

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.features("history", "node_actions", "status", "pages"),
    pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl on PATH"),
]

ACTIONS = {"plimsoll.io/actions": "taint", "plimsoll.io/taint-effect": "NoSchedule"}


async def described(world, node):
    made = await asyncio.create_subprocess_exec(
        *("kubectl", f"--kubeconfig={world.plane.kubeconfig}", "describe", "node", node),
        stdout=subprocess.PIPE,
    )
    return (await made.communicate())[0].decode()


async def written(replica):
    """Return what a replica shows of writes to nodes."""
    _, text = await replica.evaluator.get("/history.json?kind=written")
    records = json.loads(text or "{}").get("records", [])
    return [{name: value for name, value in one.items() if name != "number"} for one in records]


async def test_both_replicas_and_kubectl_describe_show_a_taint(world, replicas):
    await world.client.create(SECRETS, in_namespace(manifests.history(), world.namespace))
    nodes = [await world.add_node(name) for name in ("a", "b")]
    for node in nodes:
        replicas.say(node, health=0)
    annotations = {**ACTIONS, "plimsoll.io/max-nodes": "2"}
    await world.add_policy("demo", deschedule=["health Equals 2"], annotations=annotations)
    await replicas.start(2, "--taints", "--maxActedNodes=100%", *SHORT)
    await replicas.ready()
    replicas.say(nodes[0], health=2)

    async def alike():
        shown = [await written(replica) for replica in replicas.all]
        return shown[0] if shown[0] and all(one == shown[0] for one in shown) else None

    (record,) = await world.eventually(alike)
    assert record["node"] == nodes[0]
    assert "health Equals 2 (reading 2)" in record["text"]

    async def on_the_node():
        return "NodeTainted" in await described(world, nodes[0])

    await world.eventually(on_the_node)
    assert "NodeTainted" not in await described(world, nodes[1])

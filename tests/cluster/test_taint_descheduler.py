"""The descheduler's RemovePodsViolatingNodeTaints moves pods off nodes that the evaluator tainted."""

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest

from sandbox.client.client import ApiError
from sandbox.client.objects import PODS
from sandbox.envtest import ControlPlane

pytestmark = [pytest.mark.e2e, pytest.mark.features("node_actions")]

HARD = {
    "plimsoll.io/actions": "taint",
    "plimsoll.io/taint-effect": "NoSchedule",
    "plimsoll.io/max-nodes": "100%",
}
OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "web",
    "uid": "b1f3a6c1-0000-4000-8000-000000000001",
    "controller": True,
}
"""The descheduler leaves pods without a controller alone."""


@pytest.fixture
def descheduler(world):
    """The program beside kube-apiserver, or on PATH."""
    if not isinstance(world.plane.server, ControlPlane):
        pytest.skip("the descheduler needs a real API server")
    beside = Path(os.environ.get("KUBEBUILDER_ASSETS", "")) / "descheduler"
    found = str(beside) if beside.is_file() else shutil.which("descheduler")
    if found is None:
        pytest.skip("no descheduler in $KUBEBUILDER_ASSETS or on PATH")
    return found


async def is_there(world, pod):
    try:
        found = await world.client.get(PODS, pod, world.namespace)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return "deletionTimestamp" not in found["metadata"]


async def test_pods_leave_a_tainted_node(world, descheduler, tmp_path):
    sick, well = await world.add_node("sick"), await world.add_node("well")
    world.fleet.say(sick, health=2)
    world.fleet.say(well, health=0)
    policy = await world.add_policy("demo", dontschedule=["health Equals 2"], annotations=HARD)
    key = f"plimsoll.io/{world.namespace}.{policy}"
    tolerant = [{"key": key, "operator": "Exists"}]
    for name, node, spec in (
        ("leaves", sick, {}),
        ("tolerates", sick, {"tolerations": tolerant}),
        ("elsewhere", well, {}),
    ):
        await world.add_pod(name, node=node, **spec)
        owned = {"metadata": {"ownerReferences": [OWNER]}}
        await world.client.patch(PODS, name, owned, world.namespace)
        running = {"status": {"phase": "Running"}}
        await world.client.patch(PODS, name, running, world.namespace, subresource="status")
    await world.start("--taints", "--maxActedNodes=100%")

    async def written():
        return await world.evaluator.metric('plimsoll_taint_writes_total{result="ok"}') == 1

    await world.eventually(written)
    config = tmp_path / "policy.yaml"
    plugin = "RemovePodsViolatingNodeTaints"
    profile = {
        "name": "plimsoll",
        "pluginConfig": [{"name": plugin, "args": {"includedTaints": [key]}}],
        "plugins": {"deschedule": {"enabled": [plugin]}},
    }
    config.write_text(
        json.dumps(
            {
                "apiVersion": "descheduler/v1alpha2",
                "kind": "DeschedulerPolicy",
                "profiles": [profile],
            }
        )
    )
    process = await asyncio.create_subprocess_exec(
        descheduler,
        f"--kubeconfig={world.plane.kubeconfig}",
        f"--policy-config-file={config}",
        "--secure-port=0",
        stderr=asyncio.subprocess.PIPE,
    )
    _, log = await process.communicate()
    assert process.returncode == 0, log.decode()[-3000:]
    found = {name: await is_there(world, name) for name in ("leaves", "tolerates", "elsewhere")}
    assert found == {"leaves": False, "tolerates": True, "elsewhere": True}, log.decode()[-3000:]

"""`kubectl describe node` shows what policies did to the node and its pods, and why."""

import asyncio
import shutil

import pytest

from tests.together.running import SICK, RunningEvaluator, eventually, policy_body

pytestmark = pytest.mark.features("status", "node_actions", "evictions")


@pytest.fixture
async def evaluator(api, connect, tmp_path):
    await api.policies()
    for name in ("node-a", "node-b", "node-c"):
        await api.node(name)
    kube = await connect(api.url)
    made = RunningEvaluator(
        api, kube, tmp_path, taints=True, evict=True, evict_period=0.2, evict_needs_room=False
    )
    made.start()
    yield made
    await made.stop()


@pytest.fixture
def describe(api, kubeconfig):
    """Return what `kubectl describe` prints about a node."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not on PATH")
    config = kubeconfig(api.url)

    async def run(node):
        process = await asyncio.create_subprocess_exec(
            *(program, "--kubeconfig", config, "describe", "node", node),
            stdout=asyncio.subprocess.PIPE,
        )
        return (await process.communicate())[0].decode()

    return run


async def test_describe_node_names_policy_rule_and_reading(api, evaluator, describe):
    annotations = {
        "plimsoll.io/actions": "taint,evict",
        "plimsoll.io/taint-effect": "NoSchedule",
        "plimsoll.io/max-nodes": "3",
    }
    await evaluator.make_policy(policy_body("demo", annotations, deschedule={"rules": [SICK]}))
    await api.pod("web", "node-a", owner="web")
    await evaluator.sick("node-a")

    async def tainted_and_evicted():
        shown = await describe("node-a")
        return shown if "NodeTainted" in shown and "PodEvicted" in shown else ""

    shown = await eventually(tainted_and_evicted)
    why = "policy default/demo is violated: node_condition_Sick Equals 1 (reading 1)"
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert any("plimsoll" in line and line.endswith(f"tainted: {why}") for line in lines), shown
    assert any(line.endswith(f"evicted pod default/web: {why}") for line in lines), shown
    assert "tainted" not in await describe("node-b")

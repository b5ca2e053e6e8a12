"""`kubectl describe node` shows what policies did to the node and its pods, and why."""

import asyncio
import json
import shutil

import pytest

from plimsoll.http.types import Parts, Request
from tests.together.running import SICK, RunningEvaluator, eventually, policy_body

pytestmark = pytest.mark.features("status", "node_actions", "evictions", "history", "pages")


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


async def test_page_of_an_evicted_pod_names_where_its_successor_runs(api, evaluator):
    """The ReplicaSet creates another pod, which starts on another node."""
    await evaluator.make_policy(policy_body("demo", deschedule={"rules": [SICK]}))
    await api.pod("web-abcde", "node-a", owner="web")
    await evaluator.sick("node-a")

    async def page():
        request = Request("GET", "/pods/default/web-abcde.json", {}, {})
        response = await evaluator.service.operations(request)
        made = response.body
        text = b"".join(made.parts if isinstance(made, Parts) else [made])
        return json.loads(text) if response.status == 200 else {}

    async def gone():
        return "evicted" in await page()

    await eventually(gone)
    await api.pod("web-fghij", "node-b", owner="web")

    async def replaced():
        return (await page())["evicted"]["successors"]

    assert await eventually(replaced) == [{"pod": "default/web-fghij", "node": "node-b"}]
    found = (await page())["evicted"]
    assert (found["policy"], found["node"]) == ("default/demo", "node-a")
    assert found["why"].endswith("node_condition_Sick Equals 1 (reading 1)")

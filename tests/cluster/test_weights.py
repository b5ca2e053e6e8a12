"""kube-scheduler sums scores as docs/scorers.md describes."""

import json

import pytest
from aiohttp import web

from sandbox.client.client import STRATEGIC
from sandbox.client.objects import NODES, PODS
from sandbox.envtest import ControlPlane

PREFERENCE = 100 * 3
"""By how much TaintToleration scores a node without taints above one with PreferNoSchedule: all its points, times its weight."""


@pytest.fixture
async def extender():
    """Extenders that give one node the best score, one per path."""
    liked = {}

    async def prioritize(request):
        names = (await request.json())["NodeNames"]
        return web.json_response([{"Host": name, "Score": liked.get(name, 0)} for name in names])

    app = web.Application()
    app.router.add_post("/{which}/prioritize", prioritize)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}", liked
    await runner.cleanup()


@pytest.mark.parametrize(
    ("weights", "wins"),
    [((2,), False), ((4,), True), ((2, 2), True), ((1, 1), False)],
    ids=str,
)
async def test_extender_score_counts_ten_times_its_weight_and_extenders_add_up(
    world, extender, tmp_path, weights, wins
):
    if not isinstance(world.plane.server, ControlPlane):
        pytest.skip("only kube-scheduler has plugins that score")
    base, liked = extender
    avoided, plain = await world.add_node("avoided"), await world.add_node("plain")
    taint = {"spec": {"taints": [{"key": "x", "value": "y", "effect": "PreferNoSchedule"}]}}
    await world.client.patch(NODES, avoided, taint, content_type=STRATEGIC)
    liked[avoided] = 10
    assert (sum(weights) * 10 * 10 > PREFERENCE) is wins
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(world.plane.kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "extenders": [
            {
                "urlPrefix": f"{base}/{number}",
                "prioritizeVerb": "prioritize",
                "weight": weight,
                "nodeCacheCapable": True,
            }
            for number, weight in enumerate(weights)
        ],
    }
    path = tmp_path / "several.yaml"
    path.write_text(json.dumps(config))
    ours = (await world.client.get(NODES, plain))["metadata"]["labels"]
    mark = {key: value for key, value in ours.items() if value == world.suffix}
    with world.plane.server.scheduler(path) as is_up:
        await world.eventually(is_up)
        await world.add_pod("web", nodeSelector=mark)

        async def placed():
            return (await world.client.get(PODS, "web", world.namespace))["spec"].get("nodeName")

        assert await world.eventually(placed) == (avoided if wins else plain)

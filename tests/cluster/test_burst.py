"""A burst of pods through a scheduler, beside the same scheduler without the extender, on the same nodes."""

from collections import Counter

import pytest

from sandbox.apiserver.server import ApiServer
from sandbox.client.client import STRATEGIC
from sandbox.client.objects import NODES, PODS

METRIC = "node_cpu_used_mean_5m_cores"
"""A mean over 5 minutes: it shows next to nothing of a burst while that is placed, however slow the machine is."""
NODE_COUNT, POD_COUNT, USE = 20, 100, 0.8
BASE = [2 + 2 * number / (NODE_COUNT - 1) for number in range(NODE_COUNT)]
"""Cores in use before the burst, of 8 on each node."""


class Burst:
    """Nodes of 8 cores with the readings from before the burst; nothing is known of the pods but their requests."""

    def __init__(self, world):
        self.world = world
        self.names = [f"n{number:02}" for number in range(NODE_COUNT)]

    async def furnish(self):
        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", "telemetry/scheduling": "10k"}
        for name in self.names:
            full = await self.world.add_node(name)
            body = {"status": {"capacity": amounts, "allocatable": amounts}}
            await self.world.client.patch(
                NODES, full, body, subresource="status", content_type=STRATEGIC
            )
        for name, cores in zip(self.names, BASE, strict=True):
            self.world.fleet.say(self.world.name(name), **{METRIC: cores})

    async def pods(self, prefix):
        """Node → its pods of a burst; None → those that are not bound."""
        found = (await self.world.client.list(PODS, self.world.namespace)).items
        mine = [pod for pod in found if pod["metadata"]["name"].startswith(prefix)]
        return Counter(pod["spec"].get("nodeName") for pod in mine)

    async def most_used(self, prefix, policy, extender, folder, weight=1):
        """Place all pods at once; return the cores in use on the most used node."""
        container = {
            "name": "c",
            "image": "none",
            "resources": {
                "requests": {"cpu": "200m", "memory": "64Mi"},
                "limits": {"telemetry/scheduling": "1"} if policy else {},
            },
        }

        async def bound():
            pods = await self.pods(prefix)
            return pods if pods.total() == POD_COUNT and not pods[None] else None

        for number in range(POD_COUNT):
            await self.world.add_pod(f"{prefix}{number}", policy, containers=[container])
        folder.mkdir()
        async with self.world.plane.scheduler(extender, folder, weight=weight):
            pods = await self.world.eventually(bound)
        for number in range(POD_COUNT):
            await self.world.client.delete(PODS, f"{prefix}{number}", self.world.namespace)
        return max(
            cores + USE * pods[self.world.name(name)]
            for name, cores in zip(self.names, BASE, strict=True)
        )


@pytest.mark.e2e
async def test_unknown_pods_of_a_burst_are_spread_as_by_the_default_scheduler(world, tmp_path):
    """They use four times what they request. By readings alone, a quarter of them would share a node."""
    if isinstance(world.plane.server, ApiServer):
        pytest.skip("only kube-scheduler has its default plugins")
    burst = Burst(world)
    await burst.furnish()
    rules = {"scheduleonmetric": [f"{METRIC} LessThan 0"]}
    policies = {
        (ranking, weight): await world.add_policy(
            f"{ranking}{weight}", annotations={"plimsoll.io/ranking": ranking}, **rules
        )
        for ranking, weight in (("rank", 1), ("rank", 10), ("value", 5))  # the last as shipped
    }
    await world.start()
    alone = await burst.most_used("default", "", None, tmp_path / "default")
    most = {}
    for (ranking, weight), policy in policies.items():
        prefix = f"{ranking}{weight}-"
        most[ranking, weight] = await burst.most_used(
            prefix, policy, world.evaluator.extender, tmp_path / prefix, weight
        )
    assert {case: cores for case, cores in most.items() if cores > alone + USE} == {}

"""Capacity for gangs is counted as by kube-scheduler: as many pods are placed as were said to fit."""

from collections import Counter

import msgspec
import pytest

from evaluator.core.cache.cluster import ClusterCache, decode_node
from evaluator.core.cache.pods import PodCache
from evaluator.core.policy.decide import Decisions
from evaluator.features.gangs.core.labels import decode
from evaluator.features.gangs.core.membership import shapes
from evaluator.features.gangs.core.packing import Packing
from sandbox.client.client import STRATEGIC
from sandbox.client.objects import NODES, PODS
from tests.evaluator.features.gangs.fed import fed_tracker

pytestmark = pytest.mark.e2e

HAS = {
    "cpu": "4",
    "memory": "8Gi",
    "pods": "9",
    "example.com/fpga": "7",
    "hugepages-2Mi": "64Mi",
}
NODES_OF_A_KIND = 2
PODS_OF_A_KIND = 19
"""More than two nodes hold of any kind."""


def container(name="c", restart=None, **limits):
    asked = {key.replace("__", "/").replace("_", "-"): value for key, value in limits.items()}
    kept = {"restartPolicy": restart} if restart else {}
    return {"name": name, "image": "none", "resources": {"limits": asked}, **kept}


KINDS = {
    "nothing": {"containers": [container()]},
    "cpu": {"containers": [container(cpu="900m"), container("d", cpu="1m")]},
    "init": {"containers": [container(cpu="1")], "initContainers": [container("i", cpu="1500m")]},
    "sidecar": {
        "containers": [container(cpu="700m")],
        "initContainers": [
            container("s", "Always", cpu="500m"),
            container("i", cpu="1500m"),
        ],
    },
    "fpga": {"containers": [container(**{"example.com/fpga": "2"})]},
    "huge": {"containers": [container(cpu="1m", memory="1Mi", **{"hugepages-2Mi": "24Mi"})]},
    "memory": {"containers": [container(memory="2.5Gi")]},
}


@pytest.fixture
async def kinds(world):
    """Two nodes for each kind of pods, and more pods than fit; one of them is bound already."""
    for kind, spec in KINDS.items():
        for number in range(NODES_OF_A_KIND):
            node = await world.add_node(f"{kind}-{number}", kind=kind)
            status = {"capacity": HAS, "allocatable": HAS}
            await world.client.patch(
                NODES, node, {"status": status}, subresource="status", content_type=STRATEGIC
            )
        await add_member(world, kind, "bound", nodeName=node, **spec)
        for number in range(PODS_OF_A_KIND):
            await add_member(world, kind, number, nodeSelector={"kind": kind}, **spec)


async def add_member(world, kind, number, **spec):
    labels = {world.marks: world.suffix, "podGroup": kind, "minAvailable": "2"}
    meta = {"name": f"{kind}-{number}", "namespace": world.namespace, "labels": labels}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
    await world.client.create(PODS, body | {"spec": {"terminationGracePeriodSeconds": 0, **spec}})


async def pods_of(world):
    return (await world.client.list(PODS, world.namespace)).items


async def fitting(world):
    """How many unbound pods of each kind fit by our count."""
    cluster, pods = ClusterCache(), PodCache(clock=lambda: 0.0, wall=lambda: 0.0)
    nodes = (await world.client.list(NODES)).items
    cluster.nodes.replace([decode_node(msgspec.json.encode(node)) for node in nodes])
    found = [decode(msgspec.json.encode(pod)) for pod in await pods_of(world)]
    pods.pods.replace(found)
    packing = Packing(fed_tracker(cluster, pods, Decisions).capacity())
    counts = {}
    for kind in KINDS:
        waiting = [pod for pod in found if pod.extra.group == kind and not pod.node]
        short = packing.shortage(shapes(waiting), need=len(waiting)) if waiting else None
        counts[kind] = short.fit if short else len(waiting)
    return counts


async def test_fitting_pods_equal_those_the_scheduler_places(world, kinds, tmp_path):
    expected = await fitting(world)

    def is_settled(pod):
        conditions = pod["status"].get("conditions") or ()
        return pod["spec"].get("nodeName") or any(
            one.get("reason") == "Unschedulable" for one in conditions
        )

    async def all_settled():
        return all(map(is_settled, await pods_of(world)))

    async with world.plane.scheduler(world.evaluator.extender, tmp_path):
        await world.eventually(all_settled)
    bound = Counter(
        pod["metadata"]["labels"]["podGroup"]
        for pod in await pods_of(world)
        if pod["spec"].get("nodeName") and not pod["metadata"]["name"].endswith("-bound")
    )
    assert bound == expected
    assert all(0 < count < PODS_OF_A_KIND for count in expected.values())
    assert await fitting(world) == dict.fromkeys(KINDS, 0)

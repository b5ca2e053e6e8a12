"""Anti-affinity, topology spread and host ports: the sandbox's scheduler places the same pods as kube-scheduler, for the same reasons."""

import pytest

from sandbox.client.objects import PODS

pytestmark = pytest.mark.e2e

HOST, ZONE = "kubernetes.io/hostname", "example.com/zone"
APART = "node(s) didn't match pod anti-affinity rules"
APART_OF_OTHERS = "node(s) didn't satisfy existing pods anti-affinity rules"
SPREAD = "node(s) didn't match pod topology spread constraints"
UNLABELLED = f"{SPREAD} (missing required label)"
PORTS = "node(s) didn't have free ports for the requested pod ports"


def apart(app, key=HOST):
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}  # fmt: skip


def spread(app, key=HOST, most=1, **more):
    one = {"maxSkew": most, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    return {"topologySpreadConstraints": [{**one, **selector, **more}]}


def port(number):
    ports = [{"containerPort": 80, "hostPort": number}]
    return {"containers": [{"name": "c", "image": "none", "ports": ports}]}


# name: what is on nodes a and b (east) and c (west), the spec of a further pod of that app, and
# the node on which it is placed, or why it is not.
SCENARIOS = {
    "apart": ("ab", {}, apart("apart"), "c"),
    "apart-zone": ("a", {}, apart("apart-zone", ZONE), "c"),
    "apart-all": ("abc", {}, apart("apart-all"), APART),
    "apart-rack": ("abc", {}, apart("apart-rack", "rack"), "abc"),
    "shy": ("ab", apart("shy"), {}, "c"),
    "shy-all": ("abc", apart("shy-all"), {}, APART_OF_OTHERS),
    "ports": ("ab", port(20080), port(20080), "c"),
    "ports-all": ("abc", port(20081), port(20081), PORTS),
    "ports-other": ("abc", port(20082), port(20083), "abc"),
    "spread": ("ab", {}, spread("spread"), "c"),
    "spread-2": ("ab", {}, spread("spread-2", most=2), "abc"),
    "spread-zone": ("a", {}, spread("spread-zone", ZONE), "c"),
    "spread-few": ("ac", {}, spread("spread-few", ZONE, minDomains=3), SPREAD),
    "spread-rack": ("", {}, spread("spread-rack", "rack"), UNLABELLED),
}


async def test_pods_are_placed_as_by_kube_scheduler(world, tmp_path):
    pool = world.name("pool")
    nodes = {}
    for name, zone in (("a", "east"), ("b", "east"), ("c", "west")):
        nodes[name] = await world.add_node(name, **{ZONE: zone, pool: "true"})
    for app, (on, spec, _, _) in SCENARIOS.items():
        for name in on:
            await world.add_pod(f"{app}-{name}", "", nodes[name], app=app, **spec)
    async with world.plane.scheduler(None, tmp_path):
        for app, (_, _, spec, _) in SCENARIOS.items():
            await world.add_pod(app, app=app, nodeSelector={pool: "true"}, **spec)
        for app, (_, _, _, wanted) in SCENARIOS.items():
            found = await world.eventually(lambda app=app: outcome(world, app))
            right = {nodes[name] for name in wanted} if len(wanted) <= len(nodes) else {wanted}
            assert any(one == found or f"3 {one}" in found for one in right), (app, found, wanted)


async def outcome(world, pod):
    """The node of a pod, or the scheduler's message; None before its attempt."""
    found = await world.client.get(PODS, pod, world.namespace)
    if node := found["spec"].get("nodeName"):
        return node
    conditions = found["status"].get("conditions") or ()
    return next((one["message"] for one in conditions if one["type"] == "PodScheduled"), None)

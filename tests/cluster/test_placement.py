"""The evaluator and the scheduler agree on the feasible nodes of each pod.

The scheduler is the sandbox's, or a real kube-scheduler.
"""

from functools import partial

import msgspec
import pytest

from evaluator.core.cache.cluster import decode_node, decode_pod
from evaluator.core.model.feasibility import is_feasible
from sandbox.client.client import STRATEGIC
from sandbox.client.objects import NODES, PODS

HOST = "plimsoll.io/placement"
CORDON = "node.kubernetes.io/unschedulable"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"

LARGEST = "9223372036854775807"
NODE_TABLE = {
    "plain": {"labels": {"gen": "7", "disk": "ssd"}},
    "underscore": {"labels": {"gen": "1_000"}},
    "zeros": {"labels": {"gen": "007"}},
    "largest": {"labels": {"gen": LARGEST}},
    "too-large": {"labels": {"gen": "9223372036854775808"}},
    "cordoned": {"labels": {"gen": "7"}, "unschedulable": True},
    "not-ready": {"ready": "False", "taints": [(NOT_READY, "", "NoSchedule")]},
    "unreachable": {
        "ready": "Unknown",
        "taints": [(UNREACHABLE, "", "NoSchedule"), (UNREACHABLE, "", "NoExecute")],
    },
    "tainted": {"taints": [("team", "a", "NoSchedule")]},
    "avoided": {"taints": [("team", "a", "PreferNoSchedule")]},
}
"""Typical nodes, with the taints that the node lifecycle controller adds for conditions."""


def tolerating(key, operator="Exists", **more):
    named = {"key": key} if key else {}
    return {"tolerations": [{**named, "operator": operator, **more}]}


def requiring(*timings):
    required = {"nodeSelectorTerms": list(timings)}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }


def gen(operator, *values):
    return {"matchExpressions": [{"key": "gen", "operator": operator, "values": list(values)}]}


POD_TABLE = {
    "plain": {},
    "all": tolerating(None),
    "cordon": tolerating(CORDON),
    "cordon-no-execute": tolerating(CORDON, effect="NoExecute"),
    "not-ready": tolerating(NOT_READY, effect="NoSchedule"),
    "unreachable": tolerating(UNREACHABLE),
    "unreachable-in-part": tolerating(UNREACHABLE, effect="NoSchedule"),
    "team-a": tolerating("team", "Equal", value="a"),
    "team-b": tolerating("team", "Equal", value="b"),
    "selector": {"nodeSelector": {"disk": "ssd"}},
    "in": requiring(gen("In", "7", "007")),
    "not-in": requiring(gen("NotIn", "7")),
    "exists": requiring(gen("Exists")),
    "does-not-exist": requiring(gen("DoesNotExist")),
    "gt": requiring(gen("Gt", "6")),
    "gt-999": requiring(gen("Gt", "999")),
    "gt-zeros": requiring(gen("Gt", "006")),
    "lt": requiring(gen("Lt", "8")),
    "lt-largest": requiring(gen("Lt", LARGEST)),
    "either": requiring(gen("In", "7"), gen("DoesNotExist")),
    "both": {**requiring(gen("Gt", "6")), **tolerating(CORDON)},
}


async def add_node(world, name, *, labels=None, ready="True", unschedulable=False, taints=()):
    full = await world.add_node(name, **{HOST: world.name(name)}, **(labels or {}))
    spec = {
        "unschedulable": unschedulable or None,
        "taints": [dict(zip(("key", "value", "effect"), taint, strict=True)) for taint in taints],
    }
    await world.client.patch(NODES, full, {"spec": spec})
    condition = {"type": "Ready", "status": ready, "reason": "Test", "message": ""}
    await world.client.patch(
        NODES,
        full,
        {"status": {"conditions": [condition]}},
        subresource="status",
        content_type=STRATEGIC,
    )
    return full


def judged(pod):
    """The node of a pod, False if no node is feasible, None while the scheduler has not tried it."""
    if node := pod["spec"].get("nodeName"):
        return node
    conditions = pod["status"].get("conditions") or ()
    tried = any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)
    return False if tried else None


async def scheduled(world):
    """All pods of the scenario once the scheduler has tried each of them; None before."""
    found = (await world.client.list(PODS, world.namespace)).items
    return found if all(judged(pod) is not None for pod in found) else None


@pytest.mark.e2e
async def test_evaluator_and_scheduler_agree_on_feasible_nodes(world, tmp_path):
    for name, node in NODE_TABLE.items():
        await add_node(world, name, **node)
    nodes = {
        node["metadata"]["name"]: decode_node(msgspec.json.encode(node))
        for node in (await world.client.list(NODES, labels=HOST)).items
        if world.suffix in node["metadata"]["name"]
    }
    assert len(nodes) == len(NODE_TABLE)
    for case, spec in POD_TABLE.items():
        for name in NODE_TABLE:
            selector = {**spec.get("nodeSelector", {}), HOST: world.name(name)}
            await world.add_pod(f"{case}.{name}", **{**spec, "nodeSelector": selector})
    async with world.plane.scheduler(world.evaluator.extender, tmp_path):
        pods = await world.eventually(partial(scheduled, world))
    by_scheduler = {pod["metadata"]["name"]: judged(pod) for pod in pods}
    by_evaluator = {}
    for pod in pods:
        asked = decode_pod(msgspec.json.encode(pod))
        takers = [name for name, node in nodes.items() if is_feasible(node, asked)]
        by_evaluator[pod["metadata"]["name"]] = takers[0] if takers else False
        assert len(takers) <= 1
    assert by_evaluator == by_scheduler
    assert by_scheduler["cordon.cordoned"] == world.name("cordoned")
    assert by_scheduler["not-ready.not-ready"] == world.name("not-ready")
    assert by_scheduler["gt-999.underscore"] is False

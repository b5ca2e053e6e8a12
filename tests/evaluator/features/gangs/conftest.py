"""Short constructors of pods, gangs and nodes for tests of gang decisions."""

import math

import numpy as np
import pytest

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.model.resources import RESOURCES
from evaluator.features.gangs.core.decide import decide
from evaluator.features.gangs.core.membership import (
    GATE,
    Membership,
    Owner,
    PlacementConstraints,
    QoS,
)
from evaluator.features.gangs.core.packing import Capacity
from evaluator.features.gangs.core.podgroup import PodGroup, gang_of
from tests.evaluator.features.gangs.outcomes import NOW, SEEN, TERMS
from tests.evaluator.features.gangs.replicas import PODS, Replica, node

CPU = 1000


def _resident(name, group="", minimum=0, *, cpu=1.0, node="", **more):
    """A pod with our gate by default; `cpu` in cores."""
    members = {"owner": Owner("Job", group, f"uid-{group}")} | {
        key: more.pop(key)
        for key in tuple(more)
        if key in Membership.__struct_fields__ and key not in {"group", "minimum"}
    }
    members = {"gated": not node, "qos": QoS.BURSTABLE} | members
    amounts = {"cpu": int(cpu * CPU), "pods": 1}
    fields = {
        "namespace": "default",
        "uid": f"uid-{name}",
        "kind": group or name,
        "phase": "Running" if node else "Pending",
        "requests": tuple(amounts.get(resource, 0) for resource in RESOURCES),
        "bound": None,
        "created": 100.0,
        "leaving": False,
        "ready": False,
        "restarts": 0,
        "crashing": False,
        "crashed": None,
    } | more
    about = Membership(group=group, minimum=minimum, **members)
    return PodRecord(name=name, node=node, extra=about, **fields)


def _gangs(pods, *, count_all=False):
    """The gangs of some pods, as in the gang index."""
    found = {}
    for pod in sorted(pods, key=lambda one: one.key):
        if (key := gang_of(pod)) is not None:
            found.setdefault(key, []).append(pod)
    return [PodGroup(key, tuple(members), count_all) for key, members in found.items()]


def _capacity(pods=(), *, others=(), only=None, **nodes):
    """Free capacity of nodes with this many cores. `only`: nodes allowed by constraints (Where)."""
    names = NodeIndex(sorted(nodes))
    resources = (*map(str, RESOURCES), *others)
    whole = np.zeros((len(resources), len(names)))
    whole[resources.index("pods")] = 110
    for name, cores in nodes.items():
        whole[0, names.position[name]] = math.nan if cores is None else cores * CPU
    free = whole.copy()
    for pod in pods:
        if pod.node and pod.phase not in {"Succeeded", "Failed"}:
            for row, amount in enumerate(pod.requests):
                free[row, names.position[pod.node]] -= amount

    def allowed(where: PlacementConstraints, policy):
        told = (only or {}).get(policy if policy is not None else where.constraints)
        return names.all if told is None else np.array([name in told for name in names])

    return Capacity(names, resources, free, whole, allowed)


@pytest.fixture
def a_pod():
    return _resident


@pytest.fixture
def gangs_of():
    return _gangs


@pytest.fixture
def space_of():
    return _capacity


@pytest.fixture
def with_membership():
    """The same pod with other gang fields."""

    def change(pod, **said):
        about = {name: getattr(pod.extra, name) for name in Membership.__struct_fields__}
        fields = {name: getattr(pod, name) for name in PodRecord.__struct_fields__}
        return PodRecord(**{**fields, "extra": Membership(**{**about, **said})})

    return change


@pytest.fixture
def decided(gangs_of):
    """decide() on some pods and capacity."""

    def run(pods, capacity, memory=SEEN, *, now=NOW, timings=TERMS, count_all=False):
        gangs = gangs_of(pods, count_all=count_all)
        return decide(gangs, capacity, memory, timings, now=now, random=lambda: 0.0)

    return run


@pytest.fixture
async def replica(api, connect, rng, background):
    """Start a replica beside a node of 8 cores; it leads by default."""
    await node(api, "node-a")

    async def start(*, leads=True, **options):
        made = Replica(await connect(api.url), rng, background, **options)
        if leads:
            made.fence.extend()
        return made

    return start


@pytest.fixture
def held(api):
    """Create gated pods of a gang, each requesting a core, with a common controller by default."""
    path, made = "/api/v1/namespaces/default/configmaps", {}

    async def make(group, *names, minimum=2, gates=(GATE,), cpu="1", owned=True, **labels):
        if owned and not made:  # only its presence matters
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "job"}}
            made["uid"] = (await api.call("POST", path, body))["metadata"]["uid"]
        controller = {"apiVersion": "v1", "kind": "ConfigMap", "name": "job", "controller": True}
        for name in names:
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "labels": {"podGroup": group, "minAvailable": str(minimum), **labels},
                    "ownerReferences": [{**controller, **made}] if owned else [],
                },
                "spec": {
                    "schedulingGates": [{"name": gate} for gate in gates],
                    "containers": [
                        {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
                    ],
                },
            }
            await api.call("POST", PODS, body)

    return make

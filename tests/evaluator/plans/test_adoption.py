"""Labels of Telemetry Aware Scheduling that become ours: those of its contract, nobody else's, and without a change of value."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from evaluator.cache import cluster
from evaluator.cache.cluster import ClusterCache
from evaluator.controllers.adoption import LabelMigration
from evaluator.kubeapi.client import NODES
from evaluator.kubeapi.reflector import Reflector
from evaluator.model.names import PolicyKey
from evaluator.plans import adoption
from evaluator.policy.types import Policy
from plimsoll.ratelimit import TokenBucket

PREFIX = "telemetry.aware.scheduling."


def node(labels, *managers):
    """A node with labels, and per manager (name, operation, keys) whose they are."""
    entries = [
        {
            "manager": name,
            "operation": operation,
            "apiVersion": "v1",
            "time": "T0",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {f"f:{key}": {} for key in keys}}},
        }
        for name, operation, keys in managers
    ]
    return {"metadata": {"name": "n", "labels": labels, "managedFields": entries}}


@pytest.mark.parametrize(
    ("key", "value", "ours"),
    [
        ("demo", "violating", True),
        ("demo", "mine", False),
        ("other", "violating", False),
        (f"{PREFIX}demo/card0", "true", True),
        (f"{PREFIX}demo/card0", "anything", True),
        (f"{PREFIX}other/card0", "true", False),
        (f"{PREFIX}demo", "true", False),
        ("demo/card0", "true", False),
        (f"x.{PREFIX}demo/card0", "true", False),
    ],
)
def test_just_the_keys_of_the_contract(key, value, ours):
    found = node({key: value}, ("tas", "Update", [key]))
    assert adoption.adoptable(found, {"demo"}) == ({key} if ours else set())


@pytest.mark.parametrize(
    ("managers", "ours"),
    [
        ([("tas", "Update", ["demo"])], True),
        ([("tas", "Update", ["demo"]), ("plimsoll", "Apply", ["demo"])], True),
        ([("tas", "Update", ["demo"]), ("argocd", "Apply", ["demo"])], False),
        ([("argocd", "Apply", ["demo"])], False),
        ([("plimsoll", "Apply", ["demo"])], False),
        ([], False),
    ],
    ids=["TAS's", "shared with us", "shared with an applier", "an applier's", "ours", "nobody's"],
)
def test_not_what_somebody_else_applied_nor_what_is_ours_alone(managers, ours):
    found = node({"demo": "violating"}, *managers)
    assert adoption.adoptable(found, {"demo"}) == ({"demo"} if ours else set())


def test_the_rest_of_what_everybody_owns_is_as_it_was():
    found = node({}, ("tas", "Update", ["demo", "mine"]), ("kubelet", "Update", ["zone"]))
    found["metadata"]["managedFields"][1]["fieldsV1"]["f:status"] = {"f:x": {}}
    before = json.dumps(found)
    tas, kubelet, ours = adoption.adopted(found, {"demo"}, at="T1")
    assert json.dumps(found) == before, "what was read is not changed"
    assert tas["fieldsV1"]["f:metadata"]["f:labels"] == {"f:mine": {}}
    assert kubelet == found["metadata"]["managedFields"][1]
    assert ours == {
        "manager": "plimsoll",
        "operation": "Apply",
        "apiVersion": "v1",
        "time": "T1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {"f:demo": {}}}},
    }


def test_who_owns_nothing_any_more_is_not_listed():
    found = node({}, ("tas", "Update", ["demo"]), ("plimsoll", "Apply", ["own"]))
    (ours,) = adoption.adopted(found, {"demo"}, at="T1")
    assert ours["fieldsV1"]["f:metadata"]["f:labels"] == {"f:own": {}, "f:demo": {}}


class Adopting:
    """An adopter with its surroundings, on the sandbox's API server."""

    def __init__(self, kube, rng):
        self.kube = kube
        self.cluster = ClusterCache()
        self.cluster.policies.replace([Policy(PolicyKey("default", "demo"))])
        self.decided = SimpleNamespace(waiting_for=[])
        self.leading = True
        self.adopter = LabelMigration(
            kube,
            self.cluster,
            self.decided,
            is_leader=lambda: self.leading,
            bucket=TokenBucket(rate=1e6, burst=1000),
            pause=0.01,
        )
        self.watcher = Reflector(kube, NODES, cluster.decode_node, self.cluster.nodes, rng=rng)


def named(node):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}


@pytest.fixture
async def world(api, connect, rng, background, until):
    for name in ("node-a", "node-b"):
        await api.node(name)
        if name == "node-a":  # of the other one nothing says whose it is
            await api.apply(f"/api/v1/nodes/{name}", named(name), "somebody")
        labels = {"demo": "violating", f"{PREFIX}demo/card0": "true", "mine": "1"}
        await api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
    made = Adopting(await connect(api.url), rng)
    background(made.watcher.run())
    await until(lambda: len(made.cluster.nodes.objects) == 2)
    return made


def owned(world, name):
    return world.cluster.nodes.objects[name].node_labels.owned


BOTH = frozenset({"demo", f"{PREFIX}demo/card0"})


@pytest.mark.parametrize("name", ["node-a", "node-b"])
async def test_they_become_ours_and_no_label_changes(api, world, background, until, name):
    before = await api.labels(name)
    background(world.adopter.run())
    world.adopter.wake()
    await until(lambda: world.adopter.done)
    await until(lambda: owned(world, name) == BOTH)
    assert await api.labels(name) == before
    await api.apply(f"/api/v1/nodes/{name}", named(name), "plimsoll")
    assert await api.labels(name) == {"mine": "1"}, "what we leave out goes, and nothing else"


@pytest.mark.parametrize("why", ["another leads", "nothing is decided"])
async def test_not_before_it_may(api, world, background, until, why):
    world.leading = why != "another leads"
    world.decided.waiting_for = ["policies"] if why == "nothing is decided" else []
    background(world.adopter.run())
    world.adopter.wake()
    for _ in range(50):
        await asyncio.sleep(0.001)
    assert owned(world, "node-a") == frozenset()
    world.leading, world.decided.waiting_for = True, []
    world.adopter.wake()
    await until(lambda: owned(world, "node-a") == BOTH)


async def test_once_and_never_again(api, world, background, until):
    background(world.adopter.run())
    world.adopter.wake()
    await until(lambda: owned(world, "node-b") == BOTH)
    await api.node("node-c")
    await api.merge("/api/v1/nodes/node-c", {"metadata": {"labels": {"demo": "violating"}}})
    await until(lambda: "node-c" in world.cluster.nodes.objects)
    for _ in range(50):
        world.adopter.wake()
        await asyncio.sleep(0.001)
    assert owned(world, "node-c") == frozenset()


async def test_a_node_that_changed_meanwhile_is_tried_again_and_one_that_went_is_not(
    api, world, background, until
):
    tries = []
    put = world.kube.put_managed_fields

    async def slowly(found, fields):
        name = found["metadata"]["name"]
        tries.append(name)
        if tries.count(name) == 1:
            await api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"new": "1"}}})
        await put(found, fields)

    world.kube.put_managed_fields = slowly
    running = background(world.adopter.run())
    world.adopter.wake()
    # node-b is ours by its first apply already, while its second try is still to come.
    await until(lambda: world.adopter.done)
    await until(lambda: owned(world, "node-a") == owned(world, "node-b") == BOTH)
    assert tries == ["node-a", "node-b", "node-a", "node-b"]
    assert not running.done()
    assert (await api.labels("node-a"))["new"] == "1"

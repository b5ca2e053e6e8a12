"""The Deployment controller on plain values, until it converges."""

import copy
import itertools

import pytest

from sandbox.controllers import replicas
from sandbox.controllers.replicas import (
    CreatePods,
    CreateReplicaSet,
    DeletePod,
    Scale,
    Seen,
    WriteStatus,
)


class World:
    """Apply a plan at once; pods are ready if `settle` is true."""

    def __init__(self):
        self.deployments, self.sets, self.pods = [], [], []
        self.numbers = itertools.count()

    def stamp(self, body):
        uid = f"uid-{next(self.numbers)}"
        body["metadata"] |= {"uid": uid, "resourceVersion": "1", "generation": 1}
        return body

    def deploy(self, count=2, image="one", strategy="RollingUpdate"):
        template = {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"image": image}]},
        }
        spec = {
            "replicas": count,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
            "strategy": {"type": strategy},
        }
        body = {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}
        self.deployments.append(self.stamp(body))
        return body

    def plan(self):
        return list(replicas.plan(Seen(self.deployments, self.sets, self.pods), now=0))

    def do(self, action):
        match action:
            case CreateReplicaSet(body):
                self.sets.append(self.stamp(copy.deepcopy(body)))
            case Scale(replica_set, count):
                replica_set["spec"]["replicas"] = count
            case CreatePods(replica_set, count):
                for _ in range(count):
                    body = replicas.pod_of(replica_set, f"{next(self.numbers):05}")
                    self.pods.append(self.stamp(copy.deepcopy(body)))
            case DeletePod(pod):
                self.pods.remove(pod)
            case WriteStatus(_, owner, status):
                owner["status"] = {**owner.get("status", {}), **status}

    def settle(self, ready=True):
        lowest = len(self.pods)
        for _ in range(50):
            if not (actions := self.plan()):
                return lowest
            for action in actions:
                self.do(action)
            lowest = min(lowest, sum(replicas.ready(pod) for pod in self.pods))
            if ready:
                for pod in self.pods:
                    pod.setdefault("status", {"conditions": [{"type": "Ready", "status": "True"}]})
        raise AssertionError("does not come to rest")


@pytest.fixture
def world():
    return World()


def images(world):
    return [pod["spec"]["containers"][0]["image"] for pod in world.pods]


def test_deployment_gets_its_pods_and_status(world):
    deployment = world.deploy(3)
    world.settle()
    assert len(world.pods) == 3
    status = deployment["status"]
    assert (status["replicas"], status["readyReplicas"], status["unavailableReplicas"]) == (3, 3, 0)
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "Available": "True",
        "Progressing": "True",
    }
    (replica_set,) = world.sets
    label = replica_set["metadata"]["labels"][replicas.HASH]
    assert all(
        pod["metadata"]["labels"] == {"app": "web", replicas.HASH: label} for pod in world.pods
    )
    assert replica_set["spec"]["selector"]["matchLabels"] == {"app": "web", replicas.HASH: label}


def test_second_reconcile_has_nothing_to_do(world):
    world.deploy(2)
    world.settle()
    assert world.plan() == []


@pytest.mark.parametrize("count", [0, 1, 5])
def test_scaling_adds_and_removes_pods(world, count):
    deployment = world.deploy(2)
    world.settle()
    deployment["spec"]["replicas"] = count
    world.settle()
    assert len(world.pods) == count


def test_lost_pod_is_replaced(world):
    world.deploy(2)
    world.settle()
    lost = world.pods.pop()
    world.settle()
    assert len(world.pods) == 2
    assert lost not in world.pods


@pytest.mark.parametrize("how", ["deleting", "failed"])
def test_finished_pod_does_not_count(world, how):
    world.deploy(2)
    world.settle()
    if how == "deleting":
        world.pods[0]["metadata"]["deletionTimestamp"] = "2026-11-20T09:15:04Z"
    else:
        world.pods[0]["status"] = {"phase": "Failed"}
    world.settle()
    assert len(world.pods) == 3


def test_pods_without_a_node_are_deleted_first(world):
    deployment = world.deploy(3)
    world.settle()
    for pod in world.pods[:2]:
        pod["spec"]["nodeName"] = "node-a"
    deployment["spec"]["replicas"] = 2
    world.settle()
    assert [pod["spec"].get("nodeName") for pod in world.pods] == ["node-a", "node-a"]


def test_new_template_is_rolled_out_without_a_gap(world):
    deployment = world.deploy(3)
    world.settle()
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "two"
    assert world.settle() >= 3
    assert images(world) == ["two"] * 3


def test_old_pod_stays_while_no_new_one_is_ready(world):
    deployment = world.deploy(2)
    world.settle()
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "two"
    world.settle(ready=False)
    assert sorted(images(world)) == ["one", "one", "two", "two"]


def test_recreate_creates_no_new_pod_before_the_old_ones_are_gone(world):
    deployment = world.deploy(2, strategy="Recreate")
    world.settle()
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "two"
    for _ in range(20):
        for action in world.plan():
            world.do(action)
            assert len(set(images(world))) <= 1
    assert images(world) == ["two", "two"]


def test_pod_without_an_owner_is_left_alone(world, pod):
    world.pods.append(pod())
    world.settle()
    assert world.pods == [pod()]


def test_standalone_replica_set_keeps_its_replicas(world):
    world.deploy(1)
    world.settle()
    bare = copy.deepcopy(world.sets[0])
    bare["metadata"] |= {"uid": "bare", "name": "bare", "ownerReferences": []}
    bare["spec"]["replicas"] = 2
    world.sets.append(bare)
    world.settle()
    assert len(world.pods) == 3

"""What is known of the cluster, and who is told when it changes."""

from itertools import permutations

import pytest

from evaluator.cluster import Cluster, Collection
from evaluator.objects import Condition, Meta, Node, NodeSpec, NodeStatus, Pod

KINDS = ("policies", "nodes", "pods")


def collection(cluster: Cluster, kind: str) -> Collection[object, object]:
    found: Collection[object, object] = getattr(cluster, kind)
    return found


@pytest.mark.parametrize("order", list(permutations(KINDS)), ids="-".join)
def test_whichever_kind_is_listed_last_the_decider_is_told(order: tuple[str, ...]) -> None:
    cluster = Cluster()
    seen: list[list[str]] = []
    cluster.listeners.decisions.append(lambda: seen.append(cluster.waiting_for))
    for kind in order:
        collection(cluster, kind).replace([])
    assert seen[-1] == []
    assert len(seen) == len(KINDS)


def node(**changes: object) -> Node:
    meta = {"name": "node-a", "uid": "1", "resource_version": "1", "labels": {}, **changes}
    ready = NodeStatus([Condition("Ready", "True")])
    return Node(Meta(**meta), NodeSpec(), ready)  # type: ignore[arg-type]


def test_a_heartbeat_of_a_node_wakes_nobody() -> None:
    cluster = Cluster()
    cluster.nodes.replace([node()])
    told: list[str] = []
    for name in ("decisions", "labels", "placement"):
        getattr(cluster.listeners, name).append(lambda name=name: told.append(name))
    cluster.nodes.put(node(resource_version="2"))
    assert told == []
    cluster.nodes.put(node(resource_version="3", labels={"a": "b"}))
    assert told == ["labels", "placement"]
    cluster.nodes.drop(node())
    assert told[2:] == ["decisions", "labels", "placement"]


def test_a_later_list_finds_what_was_deleted_meanwhile() -> None:
    cluster = Cluster()
    pods = [Pod(Meta(name=name, namespace="ns")) for name in ("one", "two")]
    cluster.pods.replace(list(pods))
    told: list[int] = []
    cluster.listeners.placement.append(lambda: told.append(1))
    cluster.pods.replace([pods[1]])
    assert list(cluster.pods.objects) == [("ns", "two")]
    assert told == [1]

"""The cluster cache and what it publishes."""

import json
from functools import partial
from itertools import permutations

import pytest

from evaluator.core.cache.cluster import (
    ClusterCache,
    Collection,
    WatchStaleness,
    decode_node,
    decode_pod,
)
from evaluator.core.model.names import ObjectMeta, PolicyKey
from evaluator.core.model.node import Node, NodeCondition, NodeMeta, NodeSpec, NodeStatus
from evaluator.core.model.pod import Pod
from evaluator.core.policy.types import Policy
from evaluator.core.signals import (
    KindListed,
    NodeActionsChanged,
    NodeAnnotationsChanged,
    NodeCapacityChanged,
    NodeLabelsChanged,
    NodeRegistered,
    NodeSetChanged,
    PlacementChanged,
    PolicyChanged,
    on,
    on_node,
    wakes,
)

DECIDE = (PolicyChanged, KindListed, NodeSetChanged)
"""What requests a decision."""
KINDS = ("policies", "nodes", "pods")


def collection(cluster: ClusterCache, kind: str) -> Collection[object, object]:
    found: Collection[object, object] = getattr(cluster, kind)
    return found


@pytest.mark.parametrize("order", list(permutations(KINDS)), ids="-".join)
def test_decisions_are_requested_when_the_last_kind_is_listed(order: tuple[str, ...]) -> None:
    cluster = ClusterCache()
    seen: list[list[str]] = []
    cluster.signals.connect(wakes(lambda: seen.append(cluster.waiting_for), *DECIDE))
    for kind in order:
        collection(cluster, kind).replace([])
    assert seen[-1] == []
    assert len(seen) == len(KINDS)


def test_kind_no_longer_served_is_pending_until_listed_again() -> None:
    cluster = ClusterCache()
    for kind in KINDS:
        collection(cluster, kind).replace([])
    seen: list[list[str]] = []
    cluster.signals.connect(wakes(lambda: seen.append(cluster.waiting_for), *DECIDE))
    cluster.policies.mark_unserved("the CRD is gone")
    assert cluster.waiting_for == ["policies (the CRD is gone)"]
    cluster.policies.replace([])
    assert seen == [[]]


def node(**changes: object) -> Node:
    meta = {"name": "node-a", "uid": "1", "resource_version": "1", "labels": {}, **changes}
    ready = NodeStatus([NodeCondition("Ready", "True")])
    return Node(NodeMeta(**meta), NodeSpec(), ready)  # type: ignore[arg-type]


def test_node_heartbeat_requests_no_decision() -> None:
    cluster = ClusterCache()
    cluster.nodes.replace([node()])
    told: list[str] = []
    for name, signals in {
        "decisions": DECIDE,
        "labels": [NodeLabelsChanged],
        "placement": [PlacementChanged],
    }.items():
        cluster.signals.connect(wakes(partial(told.append, name), *signals))
    cluster.nodes.put(node(resource_version="2"))
    assert told == []
    cluster.nodes.put(node(resource_version="3", labels={"a": "b"}))
    assert told == ["labels", "placement"]
    cluster.nodes.drop(node())
    assert told[2:] == ["decisions", "labels", "placement"]


def test_node_names_are_one_object_while_unchanged() -> None:
    """Arrays over the nodes are compared and looked up by this object."""
    cluster = ClusterCache()
    cluster.nodes.replace([node(name="b"), node(name="a")])
    names = cluster.names
    assert names == ("a", "b")
    cluster.nodes.put(node(name="a", labels={"a": "b"}))
    assert cluster.names is names
    cluster.nodes.drop(node(name="a"))
    cluster.nodes.put(node(name="a"))
    assert cluster.names is names
    cluster.nodes.put(node(name="c"))
    assert cluster.names == ("a", "b", "c")
    cluster.nodes.replace([])
    assert cluster.names == ()


def test_node_signals_are_published_when_their_fields_change() -> None:
    cluster = ClusterCache()
    told: list[str] = []
    cluster.signals.connect([on_node(NodeCapacityChanged, told.append)])
    others: list[str] = []
    cluster.signals.connect(wakes(lambda: others.append("placement"), PlacementChanged))
    bare = {"metadata": {"name": "a", "annotations": {"mean-free-cpu": "1"}}}
    small = {**bare, "status": {"allocatable": {"cpu": "1", "memory": "1Gi"}}}
    for number, body in enumerate([small, small, bare, {"metadata": {"name": "a"}}], start=1):
        cluster.nodes.put(decode_node(json.dumps(body)))
        assert told == ["a"] * (number - (number > 1))
    assert others == ["placement"]
    cluster.nodes.replace([])
    assert told == ["a"] * 4


def test_annotations_with_our_prefix_have_one_signal() -> None:
    cluster = ClusterCache()
    told: list[str] = []
    cluster.signals.connect([on_node(NodeAnnotationsChanged, told.append)])
    actions: list[str] = []
    cluster.signals.connect([on_node(NodeActionsChanged, actions.append)])
    system = {"nodeInfo": {"systemUUID": "machine-a"}}
    for changes, annotations, status in [
        (1, {}, {}),
        (1, {"other": "1"}, {}),
        (2, {"plimsoll.io/memory": "{}"}, {}),
        (3, {"plimsoll.io/memory": "{}", "plimsoll.io/ack.Hung": "now"}, {}),
        (4, {"plimsoll.io/memory": "{}", "plimsoll.io/ack.Hung": "now"}, system),
        (4, {"plimsoll.io/ack.Hung": "now", "plimsoll.io/memory": "{}"}, system),
    ]:
        body = {"metadata": {"name": "a", "annotations": annotations}, "status": status}
        cluster.nodes.put(decode_node(json.dumps(body)))
        assert told == ["a"] * changes
    assert actions == ["a"]
    cluster.nodes.replace([])
    assert told == ["a"] * 5


def pod(**status: object) -> Pod:
    body = {
        "metadata": {"name": "web", "namespace": "ns", "uid": "1", "resourceVersion": "1"},
        "spec": {"nodeName": "node-a"},
        "status": {"phase": "Running", **status},
    }
    return decode_pod(json.dumps(body))


def test_kubelet_status_of_a_running_pod_requests_no_decision() -> None:
    cluster = ClusterCache()
    cluster.pods.replace([pod()])
    told: list[str] = []
    cluster.signals.connect(wakes(lambda: told.append("placement"), PlacementChanged))
    cluster.pods.put(pod(conditions=[{"type": "Ready", "status": "True"}], podIP="10.0.0.1"))
    assert told == []
    cluster.pods.put(pod(phase="Succeeded"))
    assert told == ["placement"]
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
    cluster.pods.put(pod(phase="Succeeded", conditions=[waits]))
    assert told == ["placement"] * 2


def test_long_list_is_applied_in_steps_and_counts_once_complete() -> None:
    """Other tasks run meanwhile and must not take half a list for the whole."""
    cluster = ClusterCache()
    many = [Node(NodeMeta(name=f"node-{number}", uid="u")) for number in range(1000)]
    known = []
    for _ in cluster.nodes.replacing(many):
        assert not cluster.nodes.synced
        known.append(len(cluster.nodes.objects))
    assert len(known) > 1
    assert known == sorted(set(known))
    assert cluster.nodes.synced
    assert list(cluster.nodes.objects.values()) == many


def test_any_node_may_exist_until_nodes_are_listed() -> None:
    cluster = ClusterCache()
    assert cluster.may_exist("node-a")
    cluster.nodes.replace([Node(NodeMeta(name="node-b", uid="u"))])
    assert cluster.may_exist("node-b")
    assert not cluster.may_exist("node-a")
    cluster.nodes.put(Node(NodeMeta(name="node-a", uid="v")))
    assert cluster.may_exist("node-a")


def test_status_is_the_last_one_written_and_no_policy_change() -> None:
    """A new leader continues from what the last one wrote."""
    cluster = ClusterCache()
    told: list[str] = []
    key = PolicyKey("ns", "demo")
    cluster.policies.replace([Policy(key)])
    cluster.signals.connect(wakes(lambda: told.append("decisions"), *DECIDE))
    cluster.policies.put(Policy(key, status={"compliance": "Violated"}))
    assert cluster.status_of(key) == {"compliance": "Violated"}
    assert told == []


def test_relist_drops_objects_deleted_meanwhile() -> None:
    cluster = ClusterCache()
    pods = [Pod(ObjectMeta(name=name, namespace="ns")) for name in ("one", "two")]
    cluster.pods.replace(list(pods))
    told: list[int] = []
    cluster.signals.connect(wakes(lambda: told.append(1), PlacementChanged))
    cluster.pods.replace([pods[1]])
    assert list(cluster.pods.objects) == [("ns", "two")]
    assert told == [1]


def test_registrations_of_nodes_are_published_and_no_heartbeats():
    seen, known = [], ClusterCache()
    known.signals.connect(
        [on(NodeRegistered, lambda change: seen.append((change.node, change.registered)))]
    )
    first = Node(NodeMeta(name="a", uid="1", resource_version="1"))
    known.nodes.replace([first])
    assert seen == [], "the first list is no change"
    known.nodes.put(Node(NodeMeta(name="a", uid="1", resource_version="2")))
    assert seen == []
    known.nodes.put(Node(NodeMeta(name="a", uid="2", resource_version="3")))
    known.nodes.put(Node(NodeMeta(name="b", uid="3", resource_version="4")))
    known.nodes.drop(first)
    known.nodes.replace([Node(NodeMeta(name="b", uid="5", resource_version="6"))])
    assert seen == [("a", True), ("b", True), ("a", False), ("b", True)]


@pytest.fixture
def fresh():
    return WatchStaleness(("nodes", "pods"), bound=60.0)


def test_kind_never_listed_is_missing_and_not_stale(fresh):
    assert fresh.stale(1e9) == []
    assert fresh.age("nodes", 5.0) is None


def test_each_kind_turns_stale_by_itself(fresh):
    fresh.observed("nodes", 100.0)
    fresh.observed("pods", 130.0)
    assert fresh.stale(160.0) == []
    assert fresh.stale(161.0) == ["updates of nodes from the API server (none for 61 s)"]
    assert len(fresh.stale(191.0)) == 2
    assert fresh.age("pods", 131.0) == 1.0


def test_first_event_after_a_long_silence_is_reported(fresh):
    assert not fresh.observed("nodes", 100.0), "the first event ends no silence"
    assert not fresh.observed("nodes", 160.0)
    assert fresh.observed("nodes", 221.0)
    assert fresh.stale(221.0) == []

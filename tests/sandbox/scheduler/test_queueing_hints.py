"""Which changes requeue a pod."""

import pytest

from sandbox.scheduler import queueing_hints


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "labels", "x"), "y"),
        (("metadata", "annotations"), {"x": "y"}),
        (("spec", "taints"), [{"key": "k", "effect": "NoSchedule"}]),
        (("spec", "unschedulable"), True),
        (("status", "allocatable", "cpu"), "8"),
        (("status", "conditions"), [{"type": "Ready", "status": "False"}]),
    ],
)
def test_relevant_node_change_requeues(node, changed, path, value):
    assert queueing_hints.of_node(node(), changed(node(), *path, to=value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "resourceVersion"), "2"),
        (("metadata", "managedFields"), [{}]),
        (("metadata", "labels"), {"kubernetes.io/hostname": "node-a"}),
        (("status", "capacity"), {"cpu": "8"}),
        (("status", "nodeInfo"), {"bootID": "x"}),
        (("spec", "unschedulable"), False),
    ],
)
def test_irrelevant_node_change_does_not_requeue(node, changed, path, value):
    assert not queueing_hints.of_node(node(), changed(node(), *path, to=value))


def test_heartbeat_does_not_requeue(node, changed):
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-20T09:15:04Z"}
    before = changed(node(), "status", "conditions", to=[ready])
    later = changed(
        node(), "status", "conditions", to=[ready | {"lastHeartbeatTime": "2026-11-20T09:15:14Z"}]
    )
    assert not queueing_hints.of_node(before, later)


@pytest.mark.parametrize(
    ("path", "value", "counts"),
    [
        (("metadata", "annotations"), {"x": "y"}, True),
        (("metadata", "labels"), {"x": "y"}, True),
        (("spec", "schedulingGates"), [{"name": "g"}], True),
        (("metadata", "resourceVersion"), "2", False),
        (("metadata", "managedFields"), [{}], False),
        (("status", "qosClass"), "Burstable", False),
    ],
)
def test_changes_of_the_waiting_pod_are_classified(pod, changed, path, value, counts):
    assert queueing_hints.of_waiting_pod(pod(), changed(pod(), *path, to=value)) is counts


def test_own_condition_counts_only_if_its_text_changed(pod, changed):
    def says(text):
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": text,
        }
        return changed(pod(), "status", "conditions", to=[condition])

    assert not queueing_hints.of_waiting_pod(pod(), says("no"))
    assert not queueing_hints.of_waiting_pod(says("no"), says("no"))
    assert queueing_hints.of_waiting_pod(says("no, 5"), says("no, 6"))


def test_any_change_of_a_placed_pod_counts(pod, changed):
    placed = pod(nodeName="node-a")
    assert queueing_hints.of_placed_pod(placed, changed(placed, "status", "phase", to="Running"))
    assert not queueing_hints.of_placed_pod(
        placed, changed(placed, "metadata", "resourceVersion", to="2")
    )

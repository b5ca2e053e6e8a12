"""What makes a scheduler try again, and what does not."""

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
def test_a_node_change_that_counts(node, changed, path, value):
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
def test_a_node_change_that_does_not_count(node, changed, path, value):
    assert not queueing_hints.of_node(node(), changed(node(), *path, to=value))


def test_a_heartbeat_does_not_count(node, changed):
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
def test_the_waiting_pod_itself(pod, changed, path, value, counts):
    assert queueing_hints.of_waiting_pod(pod(), changed(pod(), *path, to=value)) is counts


def test_its_own_condition_counts_only_when_the_text_differs_from_the_one_before(pod, changed):
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


def test_a_placed_pod_counts_with_whatever_it_does(pod, changed):
    placed = pod(nodeName="node-a")
    assert queueing_hints.of_placed_pod(placed, changed(placed, "status", "phase", to="Running"))
    assert not queueing_hints.of_placed_pod(
        placed, changed(placed, "metadata", "resourceVersion", to="2")
    )

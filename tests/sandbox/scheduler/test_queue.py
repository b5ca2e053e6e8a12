"""The order in which waiting pods are tried, when, and which changes requeue them."""

import math

import pytest

from sandbox.scheduler import queue
from sandbox.scheduler.queue import FLUSH, SchedulingQueue


@pytest.fixture
def pending():
    return SchedulingQueue()


def put(pending, key, priority=0, gated=False, now=0.0):
    pending.put(key, priority=priority, gated=gated, now=now)


def test_priority_comes_first_then_age_in_the_queue(pending):
    put(pending, "old")
    put(pending, "new")
    put(pending, "urgent", priority=5)
    assert [pending.take(0), pending.take(0), pending.take(0), pending.take(0)] == [
        "urgent",
        "old",
        "new",
        None,
    ]


def test_gated_pod_waits_and_keeps_its_place(pending):
    put(pending, "gated", gated=True)
    put(pending, "free")
    assert pending.due() == 0
    put(pending, "gated", gated=False, now=7)
    assert pending.take(7) == "gated"


def test_unschedulable_pod_is_queued_behind_its_equals(pending):
    for key in ("refused", "failed", "gated", "free"):
        put(pending, key, gated=key == "gated")
    pending.refused(pending.take(0), 0)
    pending.failed(pending.take(0), 0)
    pending.requeue_all(1)
    put(pending, "gated", now=1)
    assert [pending.take(1) for _ in range(4)] == ["gated", "free", "refused", "failed"]


def test_queue_of_gated_pods_has_nothing_due(pending):
    put(pending, "gated", gated=True)
    pending.requeue_all(1)
    assert (pending.take(1), pending.due()) == (None, math.inf)


def test_rejected_pod_is_retried_after_the_flush(pending):
    put(pending, "p")
    pending.take(10)
    pending.refused("p", 11)
    assert pending.due() == 11 + FLUSH
    assert pending.take(11 + FLUSH - 1) is None
    assert pending.take(11 + FLUSH) == "p"


def test_requeue_event_wakes_a_rejected_pod_at_once(pending):
    put(pending, "p")
    put(pending, "q")
    for key in (pending.take(0), pending.take(0)):
        pending.refused(key, 0)
    pending.requeue("q", 3)
    assert (pending.take(3), pending.take(3)) == ("q", None)
    pending.requeue_all(4)
    assert pending.take(4) == "p"


def test_requeue_event_during_the_attempt_applies_when_it_ends(pending):
    put(pending, "p")
    pending.take(0)
    pending.requeue_all(1)
    assert pending.take(1) is None
    pending.refused("p", 2)
    assert pending.take(2) == "p"
    pending.refused("p", 3)  # that event is used up
    assert pending.take(3) is None


def test_error_backoff_is_not_shortened_by_requeue_events(pending):
    put(pending, "p")
    now, waits = 0.0, []
    for _ in range(6):
        assert pending.take(now) == "p"
        pending.failed("p", now)
        pending.requeue_all(now)
        waits.append(pending.due() - now)
        now = pending.due()
    assert waits == [1, 2, 4, 8, 10, 10]


def test_rejection_resets_the_backoff(pending):
    put(pending, "p")
    for ending in (pending.failed, pending.failed, pending.refused, pending.failed):
        now = pending.due()
        pending.take(now)
        ending("p", now)
    assert pending.due() - now == 1


def test_pod_removed_during_its_attempt_is_gone(pending):
    put(pending, "p")
    pending.take(0)
    pending.forget("p")
    pending.refused("p", 1)
    pending.failed("p", 1)
    pending.requeue("p", 1)
    assert "p" not in pending
    assert pending.due() == math.inf


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
    assert queue.node_change_counts(node(), changed(node(), *path, to=value))


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
    assert not queue.node_change_counts(node(), changed(node(), *path, to=value))


def test_heartbeat_does_not_requeue(node, changed):
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-20T09:15:04Z"}
    before = changed(node(), "status", "conditions", to=[ready])
    later = changed(
        node(), "status", "conditions", to=[ready | {"lastHeartbeatTime": "2026-11-20T09:15:14Z"}]
    )
    assert not queue.node_change_counts(before, later)


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
    assert queue.waiting_pod_change_counts(pod(), changed(pod(), *path, to=value)) is counts


def test_own_condition_counts_only_if_its_text_changed(pod, changed):
    def says(text):
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": text,
        }
        return changed(pod(), "status", "conditions", to=[condition])

    assert not queue.waiting_pod_change_counts(pod(), says("no"))
    assert not queue.waiting_pod_change_counts(says("no"), says("no"))
    assert queue.waiting_pod_change_counts(says("no, 5"), says("no, 6"))


def test_any_change_of_a_placed_pod_counts(pod, changed):
    placed = pod(nodeName="node-a")
    assert queue.placed_pod_change_counts(placed, changed(placed, "status", "phase", to="Running"))
    assert not queue.placed_pod_change_counts(
        placed, changed(placed, "metadata", "resourceVersion", to="2")
    )

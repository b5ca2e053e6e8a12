"""The scheduling queue as in kube-scheduler: unscheduled pods, the time of their next attempt, and which changes requeue them.

No I/O, no clock. The changes that count (queueing hints) are as observed on kube-scheduler 1.36.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any

from sandbox.client.objects import Object

FLUSH = 300.0
"""Seconds after which an unschedulable pod is tried again without an event."""

_MAX_BACKOFF = 10.0


@dataclass(slots=True)
class _Waiting:
    priority: int
    arrival: int  # the order of arrival or return; removing a gate does not change it
    due: float
    gated: bool
    wakeable: bool = False  # by an event; a pod that failed by an error waits for its back-off
    in_flight: bool = False
    requeued: bool = False
    errors: int = 0


class SchedulingQueue:
    """Waiting pods by key. Times are seconds on any one clock, passed in."""

    def __init__(self) -> None:
        self._pods: dict[str, _Waiting] = {}
        self._arrivals = itertools.count()

    def __contains__(self, key: str) -> bool:
        return key in self._pods

    def put(self, key: str, *, priority: int, gated: bool, now: float) -> None:
        """Add a pod, or update its priority and gates."""
        pod = self._pods.get(key)
        if pod is None:
            self._pods[key] = _Waiting(priority, next(self._arrivals), now, gated)
            return
        pod.priority = priority
        if pod.gated and not gated:
            pod.due = now
        pod.gated = gated

    def forget(self, key: str) -> None:
        """Remove a pod that was bound, deleted, or belongs to another scheduler."""
        self._pods.pop(key, None)

    def take(self, now: float) -> str | None:
        """Return the next pod to try: the due pod with the highest priority, then the oldest."""
        ready = [
            (-pod.priority, pod.arrival, key)
            for key, pod in self._pods.items()
            if _can_run(pod) and pod.due <= now
        ]
        if not ready:
            return None
        key = min(ready)[2]
        pod = self._pods[key]
        pod.in_flight, pod.requeued = True, False
        return key

    def due(self) -> float:
        """Return the time of the next attempt; infinity if there is none."""
        return min((pod.due for pod in self._pods.values() if _can_run(pod)), default=math.inf)

    def requeue(self, key: str, now: float) -> None:
        """Requeue one pod after an event that may make it schedulable."""
        if (pod := self._pods.get(key)) is not None:
            _requeue(pod, now)

    def requeue_all(self, now: float) -> None:
        """Requeue all pods after an event that may make any schedulable."""
        for pod in self._pods.values():
            _requeue(pod, now)

    def refused(self, key: str, now: float) -> None:
        """Record an attempt without a feasible node. The pod waits for an event; one that came during the attempt counts."""
        if (pod := self._back(key)) is None:
            return
        pod.wakeable, pod.errors = True, 0
        pod.due = now if pod.requeued else now + FLUSH

    def failed(self, key: str, now: float) -> None:
        """Record an attempt that failed by an error: the next is after 1, 2, 4, 8, then 10 seconds."""
        if (pod := self._back(key)) is None:
            return
        pod.wakeable = False
        pod.due = now + min(2.0**pod.errors, _MAX_BACKOFF)
        pod.errors += 1

    def _back(self, key: str) -> _Waiting | None:
        """Move a pod behind the others of its priority."""
        if (pod := self._pods.get(key)) is not None:
            pod.in_flight, pod.arrival = False, next(self._arrivals)
        return pod


def _can_run(pod: _Waiting) -> bool:
    return not pod.in_flight and not pod.gated


def _requeue(pod: _Waiting, now: float) -> None:
    if pod.in_flight:
        pod.requeued = True
    elif pod.wakeable:
        pod.due = min(pod.due, now)


def node_change_counts(old: Object, new: Object) -> bool:
    """Return whether a node change may make a pod schedulable: not a heartbeat, not its capacity alone."""
    return _node_view(old) != _node_view(new)


def waiting_pod_change_counts(old: Object, new: Object) -> bool:
    """Return whether a change of the unschedulable pod itself requeues it.

    A condition with a different text counts: a rejection whose text varies makes
    the scheduler retry without end, which a test must be able to observe.
    """
    return _pod_view(old) != _pod_view(new) or _reworded(old, new)


def placed_pod_change_counts(old: Object, new: Object) -> bool:
    """Return whether a scheduled pod changed in more than its bookkeeping."""
    return _without_bookkeeping(old) != _without_bookkeeping(new)


def _node_view(node: Object) -> tuple[Any, ...]:
    meta, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    return (
        meta.get("annotations") or {},
        meta.get("labels") or {},
        spec.get("taints") or [],
        bool(spec.get("unschedulable")),
        status.get("allocatable") or {},
        {
            condition["type"]: condition.get("status")
            for condition in status.get("conditions") or []
        },
    )


def _pod_view(pod: Object) -> tuple[Any, ...]:
    meta, spec = pod["metadata"], pod["spec"]
    return (
        meta.get("annotations") or {},
        meta.get("labels") or {},
        spec.get("schedulingGates") or [],
        spec.get("tolerations") or [],
        spec.get("nodeSelector") or {},
        spec.get("affinity") or {},
    )


def _reworded(old: Object, new: Object) -> bool:
    before, after = _verdict(old), _verdict(new)
    return before is not None and before != after


def _verdict(pod: Object) -> tuple[Any, ...] | None:
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return condition["status"], condition.get("message")
    return None


def _without_bookkeeping(pod: Object) -> tuple[Any, ...]:
    meta = {
        key: value
        for key, value in pod["metadata"].items()
        if key not in {"resourceVersion", "managedFields", "generation"}
    }
    return meta, pod["spec"], pod.get("status")

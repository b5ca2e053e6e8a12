"""Which changes requeue an unschedulable pod, as observed on kube-scheduler 1.36. No I/O."""

from typing import Any

from sandbox.client.objects import Object


def of_node(old: Object, new: Object) -> bool:
    """Return whether a node change may make a pod schedulable: not a heartbeat, not its capacity alone."""
    return _node_view(old) != _node_view(new)


def of_waiting_pod(old: Object, new: Object) -> bool:
    """Return whether a change of the unschedulable pod itself requeues it.

    A condition with a different text counts: a rejection whose text varies makes
    the scheduler retry without end, which a test must be able to observe.
    """
    return _pod_view(old) != _pod_view(new) or _reworded(old, new)


def of_placed_pod(old: Object, new: Object) -> bool:
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

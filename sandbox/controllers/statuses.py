"""Statuses of Deployments and ReplicaSets, counted from their pods. No I/O."""

from collections.abc import Iterable, Sequence

from plimsoll import rfc3339
from sandbox.client.objects import Object


def desired_replicas(owner: Object) -> int:
    """Return the desired replicas of a Deployment or ReplicaSet."""
    count: int | None = owner["spec"].get("replicas")
    return 1 if count is None else count


def active(pods: Iterable[Object]) -> list[Object]:
    """Return the active pods: not finished and not being deleted."""
    return [
        pod
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}
    ]


def ready(pod: Object) -> bool:
    """Return whether a pod is ready."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def replica_set_status(replica_set: Object, pods: Sequence[Object]) -> Object:
    """Return the status of a ReplicaSet with these active pods."""
    return {
        "observedGeneration": replica_set["metadata"].get("generation", 1),
        "replicas": len(pods),
        "fullyLabeledReplicas": len(pods),
        **_readiness(pods),
    }


def deployment_status(
    deployment: Object, pods: Sequence[Object], updated: Sequence[Object], *, now: float
) -> Object:
    """Return the status of a Deployment with these active pods, of which `updated` have the current template."""
    status = {
        "observedGeneration": deployment["metadata"].get("generation", 1),
        "replicas": len(pods),
        "updatedReplicas": len(updated),
        **_readiness(pods),
    }
    missing = max(desired_replicas(deployment) - status["availableReplicas"], 0)
    return {
        **status,
        "unavailableReplicas": missing,
        "conditions": _progress(deployment, status, now),
    }


def differs(owner: Object, status: Object) -> bool:
    """Return whether a status differs from the object's own; a missing number is 0."""
    before = owner.get("status") or {}
    return any(before.get(key, 0) != value for key, value in status.items())


def _readiness(pods: Iterable[Object]) -> dict[str, int]:
    count = sum(ready(pod) for pod in pods)
    return {"readyReplicas": count, "availableReplicas": count}


def _progress(deployment: Object, status: Object, now: float) -> list[Object]:
    enough = status["availableReplicas"] >= desired_replicas(deployment)
    complete = enough and status["updatedReplicas"] == status["replicas"] == desired_replicas(
        deployment
    )
    states = (
        (
            "Available",
            str(enough),
            "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        ),
        ("Progressing", "True", "NewReplicaSetAvailable" if complete else "ReplicaSetUpdated"),
    )
    before = {
        condition["type"]: condition
        for condition in (deployment.get("status") or {}).get("conditions") or []
    }
    return [_condition(before.get(kind), kind, state, why, now) for kind, state, why in states]


def _condition(old: Object | None, kind: str, status: str, reason: str, now: float) -> Object:
    if old is not None and (old["status"], old.get("reason")) == (status, reason):
        return old
    at = rfc3339.seconds(now)
    since = old["lastTransitionTime"] if old is not None and old["status"] == status else at
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": reason,
        "lastUpdateTime": at,
        "lastTransitionTime": since,
    }

"""Plans which ReplicaSets and Pods to create, scale and delete so that Deployments reach their replicas, and which statuses to write. No I/O."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from plimsoll import rfc3339
from sandbox.client.objects import DEPLOYMENTS, REPLICASETS, Object, ObjectKind

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, so no words; nothing that looks like another
HASH = "pod-template-hash"


@dataclass(frozen=True, slots=True)
class CreateReplicaSet:
    """Create a Deployment's ReplicaSet for its current template."""

    body: Object


@dataclass(frozen=True, slots=True)
class Scale:
    """Scale a ReplicaSet."""

    replica_set: Object
    replicas: int


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Create this many pods of a ReplicaSet."""

    replica_set: Object
    count: int


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a surplus pod."""

    pod: Object


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write a status."""

    resource: ObjectKind
    owner: Object
    status: Object


Action = CreateReplicaSet | Scale | CreatePods | DeletePod | WriteStatus


@dataclass(frozen=True, slots=True)
class Seen:
    """The input of a plan."""

    deployments: Sequence[Object]
    replica_sets: Sequence[Object]
    pods: Sequence[Object]


def plan(seen: Seen, *, now: float) -> Iterator[Action]:
    """Return the next actions. Applied until empty, every Deployment has its replicas."""
    sets_of = _by_owner(seen.replica_sets)
    pods_of = _by_owner(seen.pods)
    for deployment in seen.deployments:
        if "deletionTimestamp" not in deployment["metadata"]:
            owned = sets_of.get(deployment["metadata"]["uid"], [])
            yield from _deployment(deployment, owned, pods_of, now)
    for replica_set in seen.replica_sets:
        if "deletionTimestamp" not in replica_set["metadata"]:
            yield from _replica_set(replica_set, pods_of.get(replica_set["metadata"]["uid"], []))


def pod_of(replica_set: Object, suffix: str) -> Object:
    """Return a new pod from a ReplicaSet's template, named with this suffix."""
    meta, template = replica_set["metadata"], replica_set["spec"]["template"]
    template_meta = {
        key: value
        for key, value in (template.get("metadata") or {}).items()
        if key in {"labels", "annotations"}
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **template_meta,
            "name": f"{meta['name']}-{suffix}",
            "generateName": f"{meta['name']}-",
            "namespace": meta["namespace"],
            "ownerReferences": [_owner(replica_set, "apps/v1", "ReplicaSet")],
        },
        "spec": template["spec"],
    }


def template_hash(template: Object) -> str:
    """Return a short hash of a pod template."""
    text = json.dumps(template, sort_keys=True)
    return "".join(
        ALPHABET[byte % len(ALPHABET)] for byte in hashlib.sha256(text.encode()).digest()[:10]
    )


def _deployment(
    deployment: Object,
    sets: Sequence[Object],
    pods_of: Mapping[str, list[Object]],
    now: float,
) -> Iterator[Action]:
    """Yield the actions of a rollout: all new pods at once; each ready pod replaces an old one. Recreate deletes old pods first."""
    want = desired_replicas(deployment)
    label = template_hash(deployment["spec"]["template"])
    current = next((replica_set for replica_set in sets if _label(replica_set) == label), None)
    old = [replica_set for replica_set in sets if replica_set is not current]
    of_all = [pod for rs in sets for pod in pods_of.get(rs["metadata"]["uid"], [])]
    updated = pods_of.get(current["metadata"]["uid"], []) if current else []
    waits = _recreates(deployment) and len(of_all) > len(updated)
    if current is None:
        yield CreateReplicaSet(_replica_set_of(deployment, label))
    elif desired_replicas(current) != want and not waits:
        yield Scale(current, want)
    is_ready = sum(ready(pod) for pod in active(updated))
    keep = 0 if _recreates(deployment) else max(want - is_ready, 0)
    for one in old:
        target = min(desired_replicas(one), keep)
        keep -= target
        if desired_replicas(one) != target:
            yield Scale(one, target)
    status = deployment_status(deployment, active(of_all), active(updated), now=now)
    if differs(deployment, status):
        yield WriteStatus(DEPLOYMENTS, deployment, status)


def _replica_set(replica_set: Object, pods: Sequence[Object]) -> Iterator[Action]:
    living = active(pods)
    surplus = len(living) - desired_replicas(replica_set)
    if surplus < 0:
        yield CreatePods(replica_set, -surplus)
    for pod in sorted(living, key=_worth)[: max(surplus, 0)]:
        yield DeletePod(pod)
    status = replica_set_status(replica_set, living)
    if differs(replica_set, status):
        yield WriteStatus(REPLICASETS, replica_set, status)


def _replica_set_of(deployment: Object, label: str) -> Object:
    meta, spec = deployment["metadata"], deployment["spec"]
    template = dict(spec["template"])
    template["metadata"] = dict(template.get("metadata") or {})
    template["metadata"]["labels"] = {**(template["metadata"].get("labels") or {}), HASH: label}
    selector = dict(spec["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH: label}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{meta['name']}-{label}",
            "namespace": meta["namespace"],
            "labels": template["metadata"]["labels"],
            "ownerReferences": [_owner(deployment, "apps/v1", "Deployment")],
        },
        "spec": {"replicas": 0, "selector": selector, "template": template},
    }


def _by_owner(objects: Iterable[Object]) -> dict[str, list[Object]]:
    by_uid: dict[str, list[Object]] = {}
    for obj in objects:
        if (owner := _controller(obj)) is not None:
            by_uid.setdefault(owner["uid"], []).append(obj)
    return by_uid


def _controller(obj: Object) -> Object | None:
    owners: Iterable[Object] = obj["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def _owner(obj: Object, api_version: str, kind: str) -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _label(replica_set: Object) -> str | None:
    label: str | None = (replica_set["metadata"].get("labels") or {}).get(HASH)
    return label


def _recreates(deployment: Object) -> bool:
    return (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"


def _worth(pod: Object) -> tuple[bool, bool, str]:
    # Delete first: unscheduled, then not ready, then by name, so that the choice is deterministic.
    return bool(pod["spec"].get("nodeName")), ready(pod), pod["metadata"]["name"]


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
    wanted = desired_replicas(deployment)
    enough = status["availableReplicas"] >= wanted
    complete = enough and status["updatedReplicas"] == status["replicas"] == wanted
    states = (
        ("Available", str(enough), f"MinimumReplicas{'Available' if enough else 'Unavailable'}"),
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

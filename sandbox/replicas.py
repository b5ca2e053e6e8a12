"""Decides what keeps Deployments at their number: which ReplicaSets and Pods to make, scale and delete. No I/O."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sandbox import timestamps
from sandbox.objects import DEPLOYMENTS, REPLICASETS, Object, Resource

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, so no words; nothing that looks like another
HASH = "pod-template-hash"


@dataclass(frozen=True, slots=True)
class CreateReplicaSet:
    """Make a Deployment's ReplicaSet for its present template."""

    body: Object


@dataclass(frozen=True, slots=True)
class Scale:
    """Ask a ReplicaSet for this many pods."""

    replica_set: Object
    replicas: int


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Make this many pods of a ReplicaSet."""

    replica_set: Object
    count: int


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod that is one too many."""

    pod: Object


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write down what is there."""

    resource: Resource
    owner: Object
    status: Object


Action = CreateReplicaSet | Scale | CreatePods | DeletePod | WriteStatus


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything the decision rests on."""

    deployments: Sequence[Object]
    replica_sets: Sequence[Object]
    pods: Sequence[Object]


def plan(seen: Seen, *, now: float) -> Iterator[Action]:
    """What to do next. Applied until nothing is left, it leaves every Deployment at its number."""
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
    """A new pod out of a ReplicaSet's template; the suffix makes its name."""
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
    """A short name for a pod template, the same for the same template."""
    text = json.dumps(template, sort_keys=True)
    return "".join(
        ALPHABET[byte % len(ALPHABET)] for byte in hashlib.sha256(text.encode()).digest()[:10]
    )


def active(pods: Iterable[Object]) -> list[Object]:
    """The pods that count: not finished, not on their way out."""
    return [
        pod
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}
    ]


def ready(pod: Object) -> bool:
    """Whether a pod says that it is ready."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _deployment(
    deployment: Object,
    sets: Sequence[Object],
    pods_of: Mapping[str, list[Object]],
    now: float,
) -> Iterator[Action]:
    want = _replicas(deployment)
    label = template_hash(deployment["spec"]["template"])
    current = next((one for one in sets if _label(one) == label), None)
    old = [one for one in sets if one is not current]
    if current is None:
        yield CreateReplicaSet(_replica_set_of(deployment, label))
    elif _replicas(current) != want and not (_recreates(deployment) and _any_pods(old, pods_of)):
        yield Scale(current, want)
    # A rolling update takes old pods away as new ones get ready; Recreate takes them all away first.
    ready_now = _count_ready(pods_of, current) if current else 0
    keep = 0 if _recreates(deployment) else max(want - ready_now, 0)
    for one in old:
        target = min(_replicas(one), keep)
        keep -= target
        if _replicas(one) != target:
            yield Scale(one, target)
    status = _deployment_status(deployment, current, sets, pods_of)
    yield from _write(DEPLOYMENTS, deployment, status | _progress(deployment, status, now))


def _replica_set(replica_set: Object, pods: Sequence[Object]) -> Iterator[Action]:
    living = active(pods)
    surplus = len(living) - _replicas(replica_set)
    if surplus < 0:
        yield CreatePods(replica_set, -surplus)
    for pod in sorted(living, key=_worth)[: max(surplus, 0)]:
        yield DeletePod(pod)
    is_ready = sum(ready(pod) for pod in living)
    status = {
        "replicas": len(living),
        "fullyLabeledReplicas": len(living),
        "readyReplicas": is_ready,
        "availableReplicas": is_ready,
        "observedGeneration": replica_set["metadata"].get("generation", 1),
    }
    yield from _write(REPLICASETS, replica_set, status)


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


def _deployment_status(
    deployment: Object,
    current: Object | None,
    sets: Sequence[Object],
    pods_of: Mapping[str, list[Object]],
) -> Object:
    of_all = [pod for one in sets for pod in active(pods_of.get(one["metadata"]["uid"], []))]
    updated = active(pods_of.get(current["metadata"]["uid"], [])) if current else []
    is_ready = sum(ready(pod) for pod in of_all)
    return {
        "observedGeneration": deployment["metadata"].get("generation", 1),
        "replicas": len(of_all),
        "updatedReplicas": len(updated),
        "readyReplicas": is_ready,
        "availableReplicas": is_ready,
        "unavailableReplicas": max(_replicas(deployment) - is_ready, 0),
    }


def _progress(deployment: Object, status: Object, now: float) -> Object:
    enough = status["availableReplicas"] >= _replicas(deployment)
    complete = enough and status["updatedReplicas"] == status["replicas"] == _replicas(deployment)
    wanted = (
        (
            "Available",
            str(enough),
            "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        ),
        ("Progressing", "True", "NewReplicaSetAvailable" if complete else "ReplicaSetUpdated"),
    )
    before = {one["type"]: one for one in (deployment.get("status") or {}).get("conditions") or []}
    return {
        "conditions": [
            _condition(before.get(kind), kind, state, why, now) for kind, state, why in wanted
        ]
    }


def _condition(old: Object | None, kind: str, status: str, reason: str, now: float) -> Object:
    if old is not None and (old["status"], old.get("reason")) == (status, reason):
        return old
    at = timestamps.seconds(now)
    since = old["lastTransitionTime"] if old is not None and old["status"] == status else at
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": reason,
        "lastUpdateTime": at,
        "lastTransitionTime": since,
    }


def _write(resource: Resource, owner: Object, status: Object) -> Iterator[Action]:
    before = owner.get("status") or {}
    if any(before.get(key, 0) != value for key, value in status.items()):
        yield WriteStatus(resource, owner, status)


def _by_owner(objects: Iterable[Object]) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for obj in objects:
        if (owner := _controller(obj)) is not None:
            found.setdefault(owner["uid"], []).append(obj)
    return found


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


def _replicas(owner: Object) -> int:
    count: int | None = owner["spec"].get("replicas")
    return 1 if count is None else count


def _label(replica_set: Object) -> str | None:
    label: str | None = (replica_set["metadata"].get("labels") or {}).get(HASH)
    return label


def _recreates(deployment: Object) -> bool:
    return (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"


def _any_pods(sets: Iterable[Object], pods_of: Mapping[str, list[Object]]) -> bool:
    return any(pods_of.get(one["metadata"]["uid"]) for one in sets)


def _count_ready(pods_of: Mapping[str, list[Object]], replica_set: Object) -> int:
    return sum(ready(pod) for pod in active(pods_of.get(replica_set["metadata"]["uid"], [])))


def _worth(pod: Object) -> tuple[bool, bool, str]:
    # First to go: without a node, then not ready; by name, so that the choice is certain.
    return bool(pod["spec"].get("nodeName")), ready(pod), pod["metadata"]["name"]

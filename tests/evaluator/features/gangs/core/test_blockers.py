"""blockers() on controllers as stored by the API server."""

import msgspec
import pytest

from evaluator.core.model.pod_record import PodRecord
from evaluator.features.gangs.core.controllers import ControllerObject, PodController
from evaluator.features.gangs.core.membership import Membership, Owner
from evaluator.features.gangs.core.messages import CreateFailure, GangContext, blockers
from evaluator.features.gangs.core.podgroup import GangKey, PodGroup

KINDS = {
    "Job": "batch/v1",
    "StatefulSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "ReplicationController": "v1",
}
QUOTA = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"


def pod(name, owner="train", *, minimum=4, gated=True, phase="Pending", leaving=False):
    controlled_by = Owner("Job", owner, f"uid-{owner}") if owner else Owner()
    return PodRecord(
        namespace="ns",
        name=name,
        uid=name,
        kind="train",
        node="",
        phase=phase,
        requests=(0, 0, 0, 0),
        bound=None,
        created=0.0,
        leaving=leaving,
        ready=False,
        restarts=0,
        crashing=False,
        crashed=None,
        extra=Membership("train", minimum, owner=controlled_by, gated=gated),
    )


def gang(*pods, count_all=False):
    return PodGroup(GangKey("ns", "train"), pods, count_all)


TWO = gang(pod("a"), pod("b"))
FAILURES = {"uid-train": CreateFailure("Job train", QUOTA)}


def controller(kind="Job", name="train", *, gone=False, status=None, metadata=None, **spec):
    owner = Owner(kind, name, f"uid-{name}", KINDS[kind])
    body = {"metadata": metadata or {}, "spec": spec, "status": status or {}}
    decoded = msgspec.json.decode(msgspec.json.encode(body), type=ControllerObject)
    return {f"uid-{name}": PodController(owner, None if gone else decoded)}


def found(gang=TWO, controllers=None, failures=None):
    return blockers(gang, GangContext(controllers or {}, failures or {}))


@pytest.mark.parametrize(
    ("kind", "spec", "status", "sentence"),
    [
        (
            "Job",
            {"parallelism": 2, "completions": 8},
            {},
            "Job train creates at most 2 pods (parallelism): at most 2 of the 4 required pods can exist",
        ),
        (
            "Job",
            {"parallelism": 3, "completions": 3},
            {},
            "Job train creates at most 3 pods (parallelism and completions): at most 3 of the 4 required pods can exist",
        ),
        (
            "Job",
            {"parallelism": 4, "completions": 3},
            {},
            "Job train creates at most 3 pods (completions): at most 3 of the 4 required pods can exist",
        ),
        (
            "Job",
            {"parallelism": 4, "completions": 5},
            {"succeeded": 2},
            "Job train creates at most 3 pods (completions): at most 3 of the 4 required pods can exist",
        ),
        (
            "Job",
            {"parallelism": 4},
            {"succeeded": 1, "active": 2},
            "Job train creates at most 2 pods (parallelism): at most 2 of the 4 required pods can exist",
        ),
        (
            "Job",
            {"parallelism": 4, "completions": 4, "suspend": True},
            {},
            "Job train is suspended",
        ),
        (
            "Job",
            {"parallelism": 4, "completions": 4},
            {"conditions": [{"type": "Failed", "status": "True"}]},
            "Job train has failed",
        ),
        (
            "StatefulSet",
            {"replicas": 3, "podManagementPolicy": "Parallel"},
            {},
            "StatefulSet train creates at most 3 pods (replicas): at most 3 of the 4 required pods can exist",
        ),
        (
            "StatefulSet",
            {"replicas": 4, "podManagementPolicy": "OrderedReady"},
            {},
            "StatefulSet train waits for each pod to become ready before it creates the next (podManagementPolicy "
            "OrderedReady), which gated pods never do: recreate it with podManagementPolicy Parallel",
        ),
        (
            "ReplicaSet",
            {"replicas": 3},
            {},
            "ReplicaSet train creates at most 3 pods (replicas): at most 3 of the 4 required pods can exist",
        ),
        (
            "ReplicationController",
            {},
            {},
            "ReplicationController train creates at most 1 pod (replicas): at most 2 of the 4 required pods can exist",
        ),
    ],
)
def test_controller_that_creates_too_few_pods_is_named_with_the_field(kind, spec, status, sentence):
    assert found(controllers=controller(kind, status=status, **spec)) == (sentence,)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Job", {"parallelism": 4, "completions": 4}),
        ("Job", {"parallelism": 4}),
        ("StatefulSet", {"replicas": 4, "podManagementPolicy": "Parallel"}),
        ("ReplicaSet", {"replicas": 5}),
    ],
)
def test_controller_that_can_still_create_enough_pods_is_no_blocker(kind, spec):
    assert found(controllers=controller(kind, **spec)) == ()


def test_deleted_controller_creates_no_pods():
    deleting = {"deletionTimestamp": "2026-11-20T21:00:00Z"}
    assert found(controllers=controller(gone=True)) == ("Job train no longer exists",)
    assert found(controllers=controller(metadata=deleting, parallelism=9)) == (
        "Job train is being deleted",
    )


def test_limits_of_several_controllers_are_added():
    pair = gang(pod("a", "launcher"), pod("b", "workers"))
    short = controller(name="launcher", parallelism=1) | controller(name="workers", parallelism=2)
    enough = controller(name="launcher", parallelism=1) | controller(name="workers", parallelism=3)
    assert found(pair, short) == (
        "Job launcher creates at most 1 pod (parallelism), Job workers creates at most 2 pods (parallelism): "
        "at most 3 of the 4 required pods can exist",
    )
    assert found(pair, enough) == ()


@pytest.mark.parametrize("other", ["", "operator"])
def test_total_is_unknown_with_an_unsupported_controller(other):
    """Bare pods, or a controller of another kind, may create any number."""
    mixed = gang(pod("a"), pod("b", other))
    assert found(mixed, controller(parallelism=1)) == ()
    assert found(mixed, controller(suspend=True)) == ("Job train is suspended",)


def test_terminating_pods_do_not_count_towards_the_limit():
    one_leaves = gang(pod("a"), pod("b", leaving=True), pod("c"))
    assert found(one_leaves, controller(parallelism=4)) == ()


def test_ordered_stateful_set_without_gated_pods_is_no_blocker():
    """For example a released gang whose pods are starting."""
    ordered = controller("StatefulSet", replicas=4, podManagementPolicy="OrderedReady")
    assert found(gang(pod("a", gated=False)), ordered) == ()


def test_rollout_that_waits_for_gated_pods_has_a_hint():
    """kube-controller-manager 1.36 replaces two of four pods, then waits for them to become ready."""
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    metadata = {
        "annotations": {"deployment.kubernetes.io/desired-replicas": "4"},
        "ownerReferences": [deployment],
    }
    new = controller("ReplicaSet", metadata=metadata, replicas=2)
    assert found(controllers=new) == (
        "Deployment web has replaced 2 of 4 pods and waits for them to become ready, which gated pods never do: "
        "use the strategy Recreate, which replaces all pods at once",
        "ReplicaSet train creates at most 2 pods (replicas): at most 2 of the 4 required pods can exist",
    )
    whole = controller("ReplicaSet", metadata=metadata, replicas=4)
    assert found(controllers=whole) == ()


def test_stateful_set_rollout_that_waits_for_gated_pods_has_a_hint():
    """Parallel creates all pods at once, but still replaces them one by one."""
    status = {"currentRevision": "s-1", "updateRevision": "s-2", "updatedReplicas": 1}
    spec = {"replicas": 4, "podManagementPolicy": "Parallel"}
    assert found(gang(pod("a")), controller("StatefulSet", status=status, **spec)) == (
        "StatefulSet train has replaced 1 of 4 pods and waits for them to become ready, which gated pods never do: "
        "delete the pods of the old template",
    )
    done = status | {"updatedReplicas": 4}
    assert found(gang(pod("a")), controller("StatefulSet", status=done, **spec)) == ()


@pytest.mark.parametrize("desired", ["", "four", "9" * 5000, "\u0664"])
def test_desired_replicas_that_are_no_number_mean_no_rollout(desired):
    """Users with write access to a ReplicaSet can put any text there."""
    owners = [{"kind": "Deployment", "name": "web", "controller": True}]
    annotations = {"deployment.kubernetes.io/desired-replicas": desired}
    metadata = {"annotations": annotations, "ownerReferences": owners}
    assert controller("ReplicaSet", metadata=metadata, replicas=2)["uid-train"].rollout is None


def test_create_failure_is_reported_in_the_api_servers_words():
    sentence = f"Job train failed to create a pod: {QUOTA}"
    assert found(controllers=controller(parallelism=4), failures=FAILURES) == (sentence,)


def test_create_failure_of_an_unsupported_kind_is_reported():
    (sentence,) = found(failures={"uid-train": CreateFailure("PyTorchJob train", QUOTA)})
    assert sentence == f"PyTorchJob train failed to create a pod: {QUOTA}"


def test_create_failure_of_a_controller_without_pods_in_the_gang_is_left_out():
    failures = {"uid-other": CreateFailure("Job other", QUOTA)}
    assert found(controllers=controller(name="other"), failures=failures) == ()


def test_condition_replica_failure_is_the_create_failure():
    message = f'pods "d-9b7c54fc8-qvbkp" is forbidden: {QUOTA}'
    conditions = [{"type": "ReplicaFailure", "status": "True", "message": message}]
    failing = controller("ReplicaSet", status={"conditions": conditions}, replicas=4)["uid-train"]
    assert failing.create_failure == QUOTA
    over = [{"type": "ReplicaFailure", "status": "False", "message": message}]
    assert controller("ReplicaSet", status={"conditions": over})["uid-train"].create_failure == ""


def test_finished_pods_count_with_count_all():
    ended = (pod("a", phase="Succeeded"), pod("b", phase="Succeeded"), pod("c"))
    job = controller(parallelism=2, completions=9)
    assert found(gang(*ended, count_all=True), job) == ()
    assert found(gang(*ended), job) != ()


def test_gang_with_quorum_has_no_blockers():
    complete = gang(*map(pod, "abcd"))
    assert found(complete, controller(gone=True), failures=FAILURES) == ()

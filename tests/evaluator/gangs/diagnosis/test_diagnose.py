"""Why a gang that lacks pods will not get them, out of objects as the API server has them."""

import msgspec
import pytest

from evaluator.gangs.core.podgroup import GangKey, PodGroup
from evaluator.gangs.diagnosis.controllers import Controller, PodController
from evaluator.gangs.diagnosis.diagnose import CreateFailure, GangContext, blockers
from evaluator.gangs.diagnosis.quota_usage import Member, Reference
from evaluator.gangs.diagnosis.quotas import Quota
from evaluator.model.gang_membership import Membership, Owner
from evaluator.model.pod_record import PodRecord

KINDS = {
    "Job": "batch/v1",
    "StatefulSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "ReplicationController": "v1",
}
QUOTA = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"


def pod(name, owner="train", *, minimum=4, gated=True, phase="Pending", leaving=False):
    controller = Owner("Job", owner, f"uid-{owner}") if owner else Owner()
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
        membership=Membership("train", minimum, owner=controller, gated=gated),
    )


def gang(*pods, count_all=False):
    return PodGroup(GangKey("ns", "train"), pods, count_all)


TWO = gang(pod("a"), pod("b"))


def maker(kind="Job", name="train", *, gone=False, status=None, metadata=None, **spec):
    reference = Reference(KINDS[kind], kind, name, f"uid-{name}", controller=True)
    body = {"metadata": metadata or {}, "spec": spec, "status": status or {}}
    decoded = msgspec.json.decode(msgspec.json.encode(body), type=Controller)
    return {f"uid-{name}": PodController(reference, None if gone else decoded)}


def found(gang=TWO, makers=None, **scene):
    return blockers(gang, GangContext(makers=makers or {}, **scene))


@pytest.mark.parametrize(
    ("kind", "spec", "status", "sentence"),
    [
        (
            "Job",
            {"parallelism": 2, "completions": 8},
            {},
            "Job train makes 2 at once (parallelism): no more than 2 of the 4 pods that are needed",
        ),
        (
            "Job",
            {"parallelism": 3, "completions": 3},
            {},
            "Job train makes 3 at once (parallelism and completions): no more than 3 of the 4 pods that are needed",
        ),
        (
            "Job",
            {"parallelism": 4, "completions": 3},
            {},
            "Job train makes 3 at once (completions): no more than 3 of the 4 pods that are needed",
        ),
        (
            "Job",
            {"parallelism": 4, "completions": 5},
            {"succeeded": 2},
            "Job train makes 3 at once (completions): no more than 3 of the 4 pods that are needed",
        ),
        (
            "Job",
            {"parallelism": 4},
            {"succeeded": 1, "active": 2},
            "Job train makes 2 at once (parallelism): no more than 2 of the 4 pods that are needed",
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
            "StatefulSet train makes 3 at once (replicas): no more than 3 of the 4 pods that are needed",
        ),
        (
            "StatefulSet",
            {"replicas": 4, "podManagementPolicy": "OrderedReady"},
            {},
            "StatefulSet train makes a pod only when the one before it is ready (podManagementPolicy OrderedReady), "
            "and one that is held never is: make it anew with podManagementPolicy Parallel",
        ),
        (
            "ReplicaSet",
            {"replicas": 3},
            {},
            "ReplicaSet train makes 3 at once (replicas): no more than 3 of the 4 pods that are needed",
        ),
        (
            "ReplicationController",
            {},
            {},
            "ReplicationController train makes 1 at once (replicas): no more than 2 of the 4 pods that are needed",
        ),
    ],
)
def test_a_controller_that_will_not_make_enough_is_named_with_the_field(
    kind, spec, status, sentence
):
    assert found(makers=maker(kind, status=status, **spec)) == (sentence,)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Job", {"parallelism": 4, "completions": 4}),
        ("Job", {"parallelism": 4}),
        ("StatefulSet", {"replicas": 4, "podManagementPolicy": "Parallel"}),
        ("ReplicaSet", {"replicas": 5}),
    ],
)
def test_one_that_is_only_slow_is_not(kind, spec):
    assert found(makers=maker(kind, **spec)) == ()


def test_one_that_is_gone_or_going_makes_none():
    going = {"deletionTimestamp": "2026-11-20T21:00:00Z"}
    assert found(makers=maker(gone=True)) == ("Job train does not exist any more",)
    assert found(makers=maker(metadata=going, parallelism=9)) == ("Job train is being deleted",)


def test_what_several_make_together_counts():
    pair = gang(pod("a", "launcher"), pod("b", "workers"))
    short = maker(name="launcher", parallelism=1) | maker(name="workers", parallelism=2)
    enough = maker(name="launcher", parallelism=1) | maker(name="workers", parallelism=3)
    assert found(pair, short) == (
        "Job launcher makes 1 at once (parallelism), Job workers makes 2 at once (parallelism): "
        "no more than 3 of the 4 pods that are needed",
    )
    assert found(pair, enough) == ()


@pytest.mark.parametrize("other", ["", "operator"])
def test_nothing_is_claimed_of_a_sum_while_some_come_from_elsewhere(other):
    """Pods that somebody makes by hand, or a controller of a kind that is not known here: there may be any number."""
    mixed = gang(pod("a"), pod("b", other))
    assert found(mixed, maker(parallelism=1)) == ()
    assert found(mixed, maker(suspend=True)) == ("Job train is suspended",)


def test_pods_on_their_way_out_leave_room_for_others():
    one_leaves = gang(pod("a"), pod("b", leaving=True), pod("c"))
    assert found(one_leaves, maker(parallelism=4)) == ()


def test_an_orderly_set_whose_pods_are_not_held_goes_on():
    """Such as one that was let go, and whose pods are starting."""
    ordered = maker("StatefulSet", replicas=4, podManagementPolicy="OrderedReady")
    assert found(gang(pod("a", gated=False)), ordered) == ()


def test_a_rollout_that_waits_for_held_pods_is_told_with_what_helps():
    """kube-controller-manager 1.36 makes two of four pods anew, and then none before those are ready."""
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    metadata = {
        "annotations": {"deployment.kubernetes.io/desired-replicas": "4"},
        "ownerReferences": [deployment],
    }
    new = maker("ReplicaSet", metadata=metadata, replicas=2)
    assert found(makers=new) == (
        "Deployment web replaces its pods a few at a time, by now 2 of 4, and waits for those to be ready, which one "
        "that is held never is: the strategy Recreate replaces all at once",
        "ReplicaSet train makes 2 at once (replicas): no more than 2 of the 4 pods that are needed",
    )
    whole = maker("ReplicaSet", metadata=metadata, replicas=4)
    assert found(makers=whole) == ()


def test_so_is_that_of_a_stateful_set():
    """Which does so one by one even where it makes them all at once."""
    status = {"currentRevision": "s-1", "updateRevision": "s-2", "updatedReplicas": 1}
    spec = {"replicas": 4, "podManagementPolicy": "Parallel"}
    assert found(gang(pod("a")), maker("StatefulSet", status=status, **spec)) == (
        "StatefulSet train replaces its pods a few at a time, by now 1 of 4, and waits for those to be ready, which one "
        "that is held never is: delete the pods of the old template",
    )
    done = status | {"updatedReplicas": 4}
    assert found(gang(pod("a")), maker("StatefulSet", status=done, **spec)) == ()


@pytest.mark.parametrize("desired", ["", "four", "9" * 5000, "\u0664"])
def test_whatever_is_annotated_there_is_no_rollout_without_a_number(desired):
    """Who may change a ReplicaSet may write anything there, and stops nobody else by that."""
    owners = [{"kind": "Deployment", "name": "web", "controller": True}]
    annotations = {"deployment.kubernetes.io/desired-replicas": desired}
    metadata = {"annotations": annotations, "ownerReferences": owners}
    assert maker("ReplicaSet", metadata=metadata, replicas=2)["uid-train"].rollout is None


def tight(name="q", hard="2"):
    body = {"metadata": {"name": name}, "status": {"hard": {"pods": hard}, "used": {"pods": "2"}}}
    return msgspec.convert(body, Quota)


def members(*uids):
    return tuple(msgspec.convert({"metadata": {"uid": uid}}, Member) for uid in uids)


def test_a_quota_is_told_and_what_the_api_server_said_of_it_is_not_told_again():
    job = maker(parallelism=4)
    told = found(
        makers=job,
        pods=members("a", "b"),
        quotas=(tight(),),
        refusals={"uid-train": CreateFailure("Job train", QUOTA)},
    )
    assert told == ("ResourceQuota q allows 2 pods in the namespace, and the gang needs 4",)


@pytest.mark.parametrize("quotas", [(), (tight("other-q", "9"),), (tight("q-2"),)])
def test_what_the_api_server_said_is_told_where_nothing_explains_it(quotas):
    job = maker(parallelism=4)
    *_, last = found(
        makers=job,
        pods=members("a", "b"),
        quotas=quotas,
        refusals={"uid-train": CreateFailure("Job train", QUOTA)},
    )
    assert last == f"Job train could not make a pod when it tried last: {QUOTA}"


def test_a_failure_of_a_controller_without_living_pods_of_the_gang_is_not_told():
    assert (
        found(makers=maker(name="other"), refusals={"uid-other": CreateFailure("Job other", QUOTA)})
        == ()
    )


def test_what_a_replica_set_says_of_itself_is_its_refusal():
    message = f'pods "d-9b7c54fc8-qvbkp" is forbidden: {QUOTA}'
    conditions = [{"type": "ReplicaFailure", "status": "True", "message": message}]
    failing = maker("ReplicaSet", status={"conditions": conditions}, replicas=4)["uid-train"]
    assert failing.refused == QUOTA
    over = [{"type": "ReplicaFailure", "status": "False", "message": message}]
    assert maker("ReplicaSet", status={"conditions": over})["uid-train"].refused == ""


def test_pods_that_ended_count_where_all_are_counted():
    ended = (pod("a", phase="Succeeded"), pod("b", phase="Succeeded"), pod("c"))
    job = maker(parallelism=2, completions=9)
    assert found(gang(*ended, count_all=True), job) == ()
    assert found(gang(*ended), job) != ()


def test_a_gang_with_its_quorum_has_no_obstacles():
    complete = gang(*map(pod, "abcd"))
    assert found(complete, maker(gone=True), quotas=(tight(),), pods=members("a")) == ()

"""A quota that leaves no room for the pods that a gang lacks is named, with what it lacks; one that might is not."""

import msgspec
import pytest

from evaluator.gangs.diagnosis.quota_usage import Member
from evaluator.gangs.diagnosis.quotas import Missing, Quota, in_the_way


def member(requests=None, limits=None, **more):
    spec = {"containers": [{"resources": {"requests": requests, "limits": limits}}], **more}
    qos = "Burstable" if requests or limits else "BestEffort"
    body = {"metadata": {"uid": "u"}, "spec": spec, "status": {"qosClass": qos}}
    return msgspec.json.decode(msgspec.json.encode(body), type=Member)


def quota(hard, used=None, **spec):
    status = {"hard": hard, "used": used} if used is not None else {}
    body = {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}, "status": status}
    return msgspec.json.decode(msgspec.json.encode(body), type=Quota)


def found(quota, *pods, missing=2, living=2):
    return [*in_the_way(quota, pods or (member(),), Missing(missing, living))]


ONE = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("hard", "used", "pod", "sentence"),
    [
        (
            {"pods": "3"},
            {"pods": "2"},
            member(),
            "allows 3 pods in the namespace, and the gang needs 4",
        ),
        (
            {"count/pods": "1"},
            {"count/pods": "1"},
            member(),
            "allows 1 pod in the namespace, and the gang needs 4",
        ),
        (
            {"pods": "5"},
            {"pods": "4"},
            member(),
            "has 1 of 5 pods left, and the gang lacks 2",
        ),
        (
            {"requests.cpu": "3"},
            {"requests.cpu": "2"},
            member(ONE),
            "allows 3 of requests.cpu, and 4 pods of 1 each need 4",
        ),
        (
            {"cpu": "4500m"},
            {"cpu": "3200m"},
            member(ONE),
            "has 1.3 of 4.5 of cpu left, and the gang lacks 2 pods of 1 each",
        ),
        (
            {"requests.memory": "6Gi"},
            {"requests.memory": "5632Mi"},
            member(ONE),
            "has 512Mi of 6Gi of requests.memory left, and the gang lacks 2 pods of 1Gi each",
        ),
        (
            {"memory": "3000Mi"},
            None,
            member(ONE),
            "allows 2.93Gi of memory, and 4 pods of 1Gi each need 4Gi",
        ),
        (
            {"limits.cpu": "7"},
            {"limits.cpu": "4"},
            member(ONE, {"cpu": "2"}),
            "allows 7 of limits.cpu, and 4 pods of 2 each need 8",
        ),
        (
            {"requests.example.com/gpu": "8"},
            {"requests.example.com/gpu": "8"},
            member({"example.com/gpu": "2"}),
            "has 0 of 8 of requests.example.com/gpu left, and the gang lacks 2 pods of 2 each",
        ),
        (
            {"hugepages-2Mi": "10Mi"},
            {"hugepages-2Mi": "8Mi"},
            member({"hugepages-2Mi": "4Mi"}),
            "allows 10Mi of hugepages-2Mi, and 4 pods of 4Mi each need 16Mi",
        ),
    ],
)
def test_what_is_short_is_said_with_how_much(hard, used, pod, sentence):
    assert found(quota(hard, used), pod) == [f"ResourceQuota q {sentence}"]


@pytest.mark.parametrize(
    ("hard", "used", "pod"),
    [
        ({"pods": "4"}, {"pods": "2"}, member()),
        ({"requests.cpu": "4"}, {"requests.cpu": "2"}, member(ONE)),
        ({"limits.cpu": "1"}, {"limits.cpu": "0"}, member(ONE)),  # refuses pods without limits
        ({"configmaps": "0"}, {"configmaps": "5"}, member(ONE)),
        ({"requests.storage": "0"}, {"requests.storage": "0"}, member(ONE)),
        ({"pods": "many"}, {"pods": "2"}, member()),
    ],
)
def test_what_leaves_room_or_is_about_other_things_is_not_told(hard, used, pod):
    assert found(quota(hard, used), pod) == []


def test_the_room_is_just_enough_or_not():
    exact = quota({"pods": "9"}, {"pods": "7"})
    assert found(exact) == []
    assert found(exact, missing=3) == ["ResourceQuota q has 2 of 9 pods left, and the gang lacks 3"]


def test_what_is_enforced_is_what_the_status_says():
    raised = {"spec": {"hard": {"pods": "9"}}, "status": {"hard": {"pods": "3"}}}
    body = {"metadata": {"name": "q"}, **raised}
    assert found(msgspec.convert(body, Quota)) == [
        "ResourceQuota q allows 3 pods in the namespace, and the gang needs 4"
    ]


def test_of_members_that_differ_the_smallest_speaks_for_those_that_are_missing():
    tight = quota({"requests.cpu": "12"}, {"requests.cpu": "9"})
    large, small = member({"cpu": "8"}), member({"cpu": "1"})
    assert found(tight, large) != []
    assert found(tight, large, small) == []


NONE_LEFT = ({"pods": "2"}, {"pods": "2"})


def selector(operator, *values):
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": [*values]}
    return {"scopeSelector": {"matchExpressions": [expression]}}


@pytest.mark.parametrize(
    ("scope", "pod", "counts"),
    [
        ({"scopes": ["BestEffort"]}, member(), True),
        ({"scopes": ["BestEffort"]}, member(ONE), False),
        ({"scopes": ["NotBestEffort"]}, member(), False),
        ({"scopes": ["NotBestEffort"]}, member(ONE), True),
        ({"scopes": ["Terminating"]}, member(), False),
        ({"scopes": ["Terminating"]}, member(activeDeadlineSeconds=60), True),
        ({"scopes": ["NotTerminating"]}, member(), True),
        ({"scopes": ["NotTerminating", "NotBestEffort"]}, member(), False),
        (selector("In", "high", "low"), member(priorityClassName="high"), True),
        (selector("In", "high"), member(), False),
        (selector("NotIn", "high"), member(priorityClassName="high"), False),
        (selector("NotIn", "high"), member(), True),
        (selector("Exists"), member(priorityClassName="high"), True),
        (selector("Exists"), member(), False),
        (selector("DoesNotExist"), member(), True),
        ({"scopes": ["PriorityClass"]}, member(priorityClassName="high"), True),
        ({"scopes": ["CrossNamespacePodAffinity"]}, member(), False),
        ({"scopes": ["OfTimesToCome"]}, member(), False),
    ],
)
def test_a_quota_with_scopes_counts_for_pods_that_it_is_about(scope, pod, counts):
    assert bool(found(quota(*NONE_LEFT, **scope), pod)) is counts


def test_a_quota_that_is_about_some_members_is_no_reason():
    """Which of them are missing is not known."""
    scoped = quota(*NONE_LEFT, scopes=["BestEffort"])
    assert found(scoped, member(), member(ONE)) == []


def test_nothing_is_claimed_of_pods_that_nobody_has_seen():
    assert [*in_the_way(quota(*NONE_LEFT), (), Missing(2, 2))] == []


def test_no_amount_is_too_large_to_be_told():
    beyond = quota({"cpu": "1"}, {"cpu": "0"})
    (told,) = found(beyond, member({"cpu": "1e300"}), missing=10**18)
    assert told.startswith("ResourceQuota q allows 1 of cpu")

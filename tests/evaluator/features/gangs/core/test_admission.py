"""Which pods get the gate at creation, and the admission response."""

import base64
import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.features.gangs.core import admission
from evaluator.features.gangs.core.admission import BadReviewError, Result
from evaluator.features.gangs.core.membership import GATE
from tests.examples import examples

GANG = {"podGroup": "train", "minAvailable": "4"}
FOREIGN = {"name": "example.com/quota"}
OURS = {"name": GATE}


def pod_of(labels=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train-0", "namespace": "ml", "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "none"}], **spec},
    }


def review_of(pod, **changed):
    """An AdmissionReview as sent by kube-apiserver 1.36 for a created pod."""
    request = {
        "uid": "0a1b",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "ml",
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:job-controller"},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        **changed,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def ask(review):
    return admission.answer(json.dumps(review).encode())


def response(answer):
    """The response, decoded as strictly as by the API server."""
    review = json.loads(answer.body)
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    told = review["response"]
    assert told["uid"] == "0a1b"
    assert told["allowed"] is True
    assert ("patch" in told) == (told.get("patchType") == "JSONPatch")
    return told


def admitted(pod):
    """The pod after the response's patch: `add` of RFC 6902, as far as it is used."""
    told, after = response(ask(review_of(pod))), copy.deepcopy(pod)
    for step in json.loads(base64.b64decode(told.get("patch", "W10="))):
        assert step["op"] == "add"
        *path, last = step["path"].split("/")[1:]
        target = after
        for part in path:
            target = target[part]
        if last == "-":
            target.append(step["value"])
        else:
            target[last] = step["value"]
    return after


def gates(pod):
    return pod["spec"].get("schedulingGates") or []


@pytest.mark.parametrize(
    "labels",
    [
        GANG,
        {**GANG, "groupPriority": "7"},
        {"groupPriority": "7"},
        {"groupPriority": "high"},
        {"podGroup": "train", "minAvailable": "1", "groupPriority": "0"},
        {"podGroup": "train", "minAvailable": "0002"},
        {"podGroup": "train", "minAvailable": str(2**63 - 1)},
    ],
    ids=str,
)
def test_pods_of_gangs_or_with_a_priority_are_gated(labels):
    pod = pod_of(labels)
    after = admitted(pod)
    assert gates(after) == [OURS]
    after["spec"].pop("schedulingGates")
    assert after == pod


@pytest.mark.parametrize(
    "labels",
    [
        None,
        {},
        {"app": "web"},
        {"podGroup": "train"},
        {"minAvailable": "4"},
        {"podGroup": "", "minAvailable": "4"},
        {"podGroup": "train", "minAvailable": ""},
        {"podGroup": "train", "minAvailable": "0"},
        {"podGroup": "train", "minAvailable": "1"},
        {"podGroup": "train", "minAvailable": "0001"},
        {"podGroup": "train", "minAvailable": "-4"},
        {"podGroup": "train", "minAvailable": "4.0"},
        {"podGroup": "train", "minAvailable": "1_000"},
        {"podGroup": "train", "minAvailable": "four"},
        {"podGroup": "train", "minAvailable": "٤"},
        {"podGroup": "train", "minAvailable": "²"},
        {"podGroup": "train", "minAvailable": str(2**63)},
        {"podGroup": "train", "minAvailable": "9" * 5000},
    ],
    ids=lambda labels: str(labels)[:60],
)
def test_other_pods_are_left_unchanged(labels):
    """The same rule as in the gang index; otherwise a pod would be gated and never released."""
    pod = pod_of(labels)
    answer = ask(review_of(pod))
    assert answer.result is Result.LEFT
    assert "patch" not in response(answer)


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        ({"podGroup": "train"}, "no minAvailable"),
        ({"minAvailable": "4"}, "no podGroup"),
        ({"podGroup": "train", "minAvailable": "four"}, "'four'"),
        ({**GANG, "groupPriority": "high"}, "'high'"),
    ],
    ids=str,
)
def test_invalid_gang_labels_are_a_warning_to_the_pods_creator(labels, named):
    (warning,) = response(ask(review_of(pod_of(labels))))["warnings"]
    assert named in warning
    assert len(warning) < 256, "the API server truncates longer ones"


@pytest.mark.parametrize("labels", [None, {"app": "web"}, GANG, {"groupPriority": "7"}], ids=str)
def test_valid_labels_cause_no_warning(labels):
    assert "warnings" not in response(ask(review_of(pod_of(labels))))


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": "node-a"},
        {"schedulingGroup": {"podGroupName": "train"}},
        {"schedulingGroup": {}},
        {"workloadRef": {"name": "train", "podGroup": "workers"}},
        {"schedulingGates": [OURS]},
        {"schedulingGates": [FOREIGN, OURS]},
    ],
    ids=str,
)
def test_ungateable_or_gated_pods_are_left_unchanged(spec):
    """A gate beside a nodeName would be rejected, and native pod groups are not ours."""
    pod = pod_of(GANG, **spec)
    assert admitted(pod) == pod


@pytest.mark.parametrize("empty", [{}, {"schedulingGates": None}, {"schedulingGates": []}], ids=str)
def test_missing_gates_have_three_spellings(empty):
    assert gates(admitted(pod_of(GANG, **empty))) == [OURS]


def test_gates_of_others_stay():
    assert gates(admitted(pod_of(GANG, schedulingGates=[FOREIGN]))) == [FOREIGN, OURS]


@given(
    st.dictionaries(st.sampled_from([*GANG, "groupPriority", "x"]), st.text(max_size=5)),
    st.lists(st.sampled_from([FOREIGN, OURS, {"name": "x"}]), max_size=3),
)
@settings(max_examples=examples(25))
def test_second_review_changes_nothing(labels, before):
    """With reinvocationPolicy IfNeeded, or beside the equivalent admission policy."""
    once = admitted(pod_of(labels, schedulingGates=before))
    assert gates(once)[: len(before)] == before
    assert admitted(once) == once


def test_pod_without_a_name_is_logged_by_its_generate_name():
    pod = pod_of(GANG)
    assert ask(review_of(pod)).pod == "ml/train-0"
    pod["metadata"] = {"generateName": "train-", "labels": GANG}
    answer = ask(review_of(pod))
    assert (answer.pod, answer.result) == ("ml/train-", Result.GATED)


@pytest.mark.parametrize(
    "changed",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None},
        {"subResource": "binding", "object": {"target": {"name": "node-a"}}},
        {"resource": {"group": "apps", "version": "v1", "resource": "pods"}},
        {
            "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
            "object": {"spec": 1},
        },
    ],
    ids=str,
)
def test_only_created_pods_are_changed(changed):
    """Whatever a webhook configuration sends here: a gate added later would make the API server reject the request."""
    assert response(ask(review_of(pod_of(GANG), **changed))) == {"uid": "0a1b", "allowed": True}


GOOD = review_of(pod_of(GANG))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        b'{"apiVersion"',
        b"[" * 100_000,
        *(
            json.dumps(bad).encode()
            for bad in (
                {**GOOD, "kind": "Pod"},
                {**GOOD, "apiVersion": "admission.k8s.io/v1beta1"},
                {**GOOD, "request": None},
                review_of(pod_of(GANG), uid=""),
                review_of(None),
                review_of([]),
                review_of(pod_of({"podGroup": 4})),
                review_of(pod_of(GANG, schedulingGates="none")),
                review_of(pod_of(GANG, nodeName=5)),
            )
        ),
    ],
    ids=lambda body: str(body)[:40],
)
def test_invalid_review_gets_a_sentence(body):
    with pytest.raises(BadReviewError) as caught:
        admission.answer(body)
    assert len(str(caught.value)) <= 500
    assert str(caught.value).isprintable()

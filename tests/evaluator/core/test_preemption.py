"""kube-scheduler's preempt verb: victims in, victims of the remaining candidates out."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core import preemption
from evaluator.core.protocol import MOST_NODES, BadRequestError

POD = {"metadata": {"name": "web", "namespace": "ns", "uid": "p", "labels": {"a": "b"}}}


def whole(*uids, violations=0):
    pods = [
        {"metadata": {"name": f"pod-{uid}", "uid": uid}, "spec": {"containers": []}} for uid in uids
    ]
    return {"Pods": pods, "NumPDBViolations": violations}


def meta(*uids, violations=0):
    return {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}


def decode(value):
    return preemption.decode(json.dumps(value).encode())


@pytest.mark.parametrize(
    ("field", "victims"), [("NodeNameToVictims", whole), ("NodeNameToMetaVictims", meta)]
)
def test_answer_has_the_uids_and_budgets_of_the_remaining_candidates(field, victims):
    request = decode(
        {
            "Pod": POD,
            "NodeNameToVictims": None,
            "NodeNameToMetaVictims": None,
            field: {"n1": victims("u1"), "n2": victims("u2", "u3", violations=2)},
        }
    )
    assert (request.args.namespace, request.args.pod, request.args.uid) == ("ns", "web", "p")
    assert (request.args.labels, request.args.names) == ({"a": "b"}, ["n1", "n2"])
    assert json.loads(preemption.encode(request.victims, {"n1"})) == {
        "NodeNameToMetaVictims": {"n2": meta("u2", "u3", violations=2)}
    }


def test_answer_without_candidates_is_an_empty_map():
    request = decode({"Pod": POD, "NodeNameToMetaVictims": {"n1": meta("u1")}})
    assert preemption.encode(request.victims, {"n1"}) == b'{"NodeNameToMetaVictims":{}}'


def test_keys_are_case_insensitive():
    request = decode({"pod": POD, "nodenametometavictims": {"n1": meta("u1")}})
    assert request.victims["n1"].uids == ["u1"]


def test_lists_that_go_writes_as_null_are_empty():
    request = decode({"Pod": POD, "NodeNameToVictims": {"n1": {"Pods": None}}})
    assert request.victims["n1"] == ([], 0)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "no Pod"),
        ({"Pod": POD}, "neither NodeNameToVictims nor NodeNameToMetaVictims"),
        ({"Pod": POD, "NodeNames": ["a"]}, "neither NodeNameToVictims nor NodeNameToMetaVictims"),
        ({"Pod": None, "NodeNameToMetaVictims": {}}, "no Pod in it"),
        ({"Pod": POD, "NodeNameToMetaVictims": []}, "not ExtenderPreemptionArgs"),
        ({"Pod": POD, "NodeNameToMetaVictims": {"n": None}}, "not ExtenderPreemptionArgs"),
        ({"Pod": POD, "NodeNameToMetaVictims": {"": meta("u")}}, "a node without a name"),
        ({"Pod": POD, "NodeNameToMetaVictims": {"n": {"Pods": {}}}}, "not ExtenderPreemptionArgs"),
        ({"Pod": POD, "NodeNameToMetaVictims": {"n": {"Pods": [{}]}}}, "required field `UID`"),
        ({"Pod": POD, "NodeNameToMetaVictims": {"n": meta(5)}}, "not ExtenderPreemptionArgs"),
        ({"Pod": POD, "NodeNameToMetaVictims": {"n": meta("u" * 1000)}}, "128 characters"),
        ({"Pod": POD, "NodeNameToVictims": {"n": whole("u" * 1000)}}, "128 characters"),
        ({"Pod": POD, "NodeNameToVictims": {"n": {"Pods": [{"a": 1}]}}}, "required field"),
        ({"Pod": POD, "NodeNameToVictims": {"n": {"NumPDBViolations": "1"}}}, "not Extender"),
    ],
)
def test_invalid_request_is_rejected_with_a_sentence(body, says):
    with pytest.raises(BadRequestError, match=says) as refused:
        decode(body)
    assert len(str(refused.value)) < 300


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_rejected(body):
    with pytest.raises(BadRequestError):
        preemption.decode(body)


HEAD = b'{"Pod":{"metadata":{"name":"x"}},'


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'%b"NodeNameToMetaVictims":{%b"z":{}}}' % (HEAD, b'"a":{},' * 3_000_000), "100000 nodes"),
        (
            b'%b"NodeNameToMetaVictims":{"a":{"Pods":[%b{"UID":""}]}}}'
            % (HEAD, b'{"UID":""},' * 3_000_000),
            "200000 victims",
        ),
        (
            b'%b"NodeNameToVictims":{"a":{"Pods":[%b{"metadata":{"uid":""}}]}}}'
            % (HEAD, b'{"metadata":{"uid":""}},' * 2_000_000),
            "200000 victims",
        ),
        (
            b'%b"NodeNameToMetaVictims":{"\xf0\x9f\x98\x80%b":{}}}' % (HEAD, b"a" * 40_000_000),
            "4194304 bytes",
        ),
        (
            b'%b"NodeNameToMetaVictims":{"\xf0\x9f\x98\x80%b":{}}}' % (HEAD, rb"\"" * 20_000_000),
            "4194304 bytes",
        ),
        (
            b'%b"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"\xf0\x9f\x98\x80%b"}]}}}'
            % (HEAD, b"a" * 4_000_000),
            "128 characters",
        ),
    ],
    ids=["nodes", "victims", "whole victims", "node name", "escaped name", "uid"],
)
def test_hostile_body_takes_no_more_memory_than_itself(body, sentence):
    """Otherwise one request could exhaust memory: a victim takes ten times its text."""
    tracemalloc.start()
    try:
        with pytest.raises(BadRequestError, match=sentence):
            preemption.decode(memoryview(body))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(body)


def test_as_many_nodes_as_the_limit_are_accepted_for_each_request():
    body = {"Pod": POD, "NodeNameToMetaVictims": {f"n{i}": meta() for i in range(MOST_NODES)}}
    for _ in range(2):
        assert len(decode(body).victims) == MOST_NODES

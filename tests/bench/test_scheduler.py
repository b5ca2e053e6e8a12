"""The benchmark's kube-scheduler sends realistic requests and rejects wrong answers."""

import json
from pathlib import Path

import pytest

from bench import cluster, nodes
from bench.scheduler import Reply, Truth, WrongAnswerError, question

RECORDED = Path(__file__).parents[1] / "evaluator/features/extender/requests"
NAMES = cluster.names(40)
VALUES = cluster.readings(NAMES, "one")
FAILING = cluster.violating(VALUES)
SCORES = cluster.scores(cluster.readings(NAMES, "two"), NAMES)
WHOLE = [json.dumps(nodes.node(name, index)).encode() for index, name in enumerate(NAMES)]


def reply(body, status=200):
    return Reply(status, json.dumps(body).encode(), 0.0)


def right_filter(whole=None):
    passing = [name for name in NAMES if name not in FAILING]
    items = None
    if whole is not None:
        items = {
            "items": [
                json.loads(one)
                for name, one in zip(NAMES, whole, strict=True)
                if name not in FAILING
            ]
        }
    return {
        "Nodes": items,
        "NodeNames": passing,
        "FailedNodes": dict.fromkeys(FAILING, "why"),
        "Error": "",
    }


def right_scores():
    return [{"Host": name, "Score": SCORES[name]} for name in NAMES]


@pytest.fixture
def truth():
    return Truth(question(NAMES), FAILING, SCORES)


@pytest.mark.parametrize(("form", "whole"), [("names", None), ("nodes", WHOLE)])
def test_body_has_the_keys_of_a_recorded_one(form, whole):
    recorded = json.loads((RECORDED / f"v1.36-{form}-3.json").read_bytes())
    asked = json.loads(question(NAMES, whole).body)
    assert asked.keys() == recorded.keys()
    assert asked["Pod"].keys() == recorded["Pod"].keys()
    assert (asked["Nodes"] is None, asked["NodeNames"] is None) == (
        recorded["Nodes"] is None,
        recorded["NodeNames"] is None,
    )
    assert asked["Pod"]["metadata"]["labels"]["telemetry-policy"] == cluster.POD_POLICY


def test_nodes_are_as_large_as_real_ones():
    sizes = [
        len(json.dumps(nodes.node(name, i), separators=(",", ":"))) for i, name in enumerate(NAMES)
    ]
    assert min(sizes) > 10_500
    assert max(sizes) < 14_000


def test_correct_answers_pass(truth):
    truth.check("filter", reply(right_filter()))
    truth.check("prioritize", reply(right_scores()))


def broken_filter(**changed):
    return reply(right_filter() | changed)


@pytest.mark.parametrize(
    "wrong",
    [
        reply(right_filter(), status=503),
        broken_filter(Error="no"),
        broken_filter(FailedNodes={}),
        broken_filter(FailedNodes=dict.fromkeys([*FAILING, NAMES[0]], "why")),
        broken_filter(NodeNames=NAMES[1:]),
        broken_filter(NodeNames=[]),
    ],
)
def test_wrong_filter_answer_is_detected(truth, wrong):
    assert NAMES[0] not in FAILING
    truth.check("filter", reply(right_filter()))
    with pytest.raises(WrongAnswerError):
        truth.check("filter", wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        right_scores()[1:],
        [*right_scores()[1:], {"Host": NAMES[0], "Score": 11}],
        right_scores() * 2,
    ],
)
def test_wrong_ranking_is_detected(truth, wrong):
    with pytest.raises(WrongAnswerError):
        truth.check("prioritize", reply(wrong))


def test_whole_nodes_are_returned_byte_for_byte():
    truth = Truth(question(NAMES, WHOLE), FAILING, SCORES)
    truth.check("filter", reply(right_filter(WHOLE)))
    shorter = json.dumps(right_filter(WHOLE), separators=(",", ":")).encode()
    with pytest.raises(WrongAnswerError):
        truth.check("filter", Reply(200, shorter, 0.0))
    Truth(truth.question, FAILING, SCORES, verbatim=False).check("filter", Reply(200, shorter, 0.0))
    with pytest.raises(WrongAnswerError):
        truth.check("filter", reply(right_filter()))


def test_both_answers_are_correct_until_the_change_must_apply(truth):
    old = reply(right_filter())
    truth.becomes(frozenset(FAILING | {NAMES[0]}))
    truth.check("filter", old)
    truth.holds()
    with pytest.raises(WrongAnswerError):
        truth.check("filter", old)

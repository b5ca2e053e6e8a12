"""/explain?pod=: reasons and numbers of the scorers per node, and kube-scheduler's sum."""

import json

import numpy as np
import pytest
from msgspec import to_builtins

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.requests import PodView
from evaluator.core.model.resources import Resource
from evaluator.core.policy.decide import decide
from evaluator.core.readings.store import Store
from evaluator.features.scorers import explain as explainpod
from evaluator.features.scorers.plugin import ClusterSnapshot, NodeRejection, ScorerResult
from wire.codec import Delta

NODES = NodeIndex(["a", "b", "c"])
POD = PodView(name="ns/web", kind="web", requests={Resource.CPU: 200.0})


class Scorer:
    """A scorer with given results."""

    metrics = ()

    def __init__(self, result, predicates=("fits",), priorities=("good", "better")):
        self.result = result
        self.predicates, self.priorities = predicates, priorities

    def score(self, view, pod):
        return self.result


def mask(*hits):
    return np.array(hits, dtype=bool)


def refusing(*hits, reason="too hot", name="fits"):
    return {name: [NodeRejection(mask(*hits), reason)]}


def scores(*values, name="good"):
    return {name: np.array(values, dtype=np.int64)}


@pytest.fixture
def explained():
    """The whole page of some scorers, given (name, scorer, weight)."""

    def explain(*asked, nodes=NODES):
        opinions = [
            explainpod.of_scorer(
                name, scorer, ClusterSnapshot(nodes), scorer.score(None, POD), weight=weight
            )
            for name, scorer, weight in asked
        ]
        found = explainpod.explain(POD, opinions)
        page = to_builtins(found.head) | {"nodes": to_builtins(dict(found.nodes))}
        assert json.loads(json.dumps(page, allow_nan=False)) == page
        return page

    return explain


def test_sum_is_score_times_weight_times_ten(explained):
    """10 points of an extender of weight 1 count as much as 100 of a plugin of weight 1."""
    safe = Scorer(ScorerResult(scores=scores(10, 4, 0)))
    other = Scorer(ScorerResult(scores=scores(1, 7, 0)))
    nodes = explained(("safe", safe, 2), ("other", other, 1))["nodes"]
    assert {name: node["total"] for name, node in nodes.items()} == {"a": 210, "b": 150, "c": 0}
    assert nodes["a"]["extenders"]["safe"]["adds"] == 200


def test_only_the_configured_priority_counts(explained):
    both = scores(3, 3, 3) | scores(9, 9, 9, name="better")
    node = explained(("safe", Scorer(ScorerResult(scores=both)), 1))["nodes"]["b"]
    assert node["extenders"]["safe"]["scores"] == {"good": 3, "better": 9}
    assert node["total"] == 30


def test_rejected_node_has_no_sum(explained):
    refusing_b = Scorer(ScorerResult(refusing(False, True, False), scores(5, 5, 5)))
    nodes = explained(
        ("safe", refusing_b, 1), ("other", Scorer(ScorerResult(scores=scores(1, 1, 1))), 1)
    )
    nodes = nodes["nodes"]
    assert (nodes["b"]["total"], nodes["b"]["refusedBy"]) == (None, ["safe"])
    assert nodes["b"]["extenders"]["safe"]["refused"] == {"fits": "too hot"}
    assert (nodes["a"]["total"], nodes["a"]["refusedBy"]) == (60, [])


def test_predicate_without_a_filter_verb_rejects_nothing(explained):
    second = ScorerResult(refusing(True, True, True, name="strict"), scores(5, 5, 5))
    node = explained(("safe", Scorer(second, predicates=("fits", "strict")), 1))["nodes"]["a"]
    assert node["extenders"]["safe"]["refused"] == {"strict": "too hot"}
    assert (node["refusedBy"], node["total"]) == ([], 50)


def test_first_reason_is_reported(explained):
    reasons = [
        NodeRejection(mask(True, False, False), "one"),
        NodeRejection(mask(True, True, False), "two"),
    ]
    nodes = explained(("safe", Scorer(ScorerResult({"fits": reasons}, scores(0, 0, 0))), 1))[
        "nodes"
    ]
    told = [node["extenders"]["safe"]["refused"].get("fits") for node in nodes.values()]
    assert told == ["one", "two", None]


def test_unknown_value_is_null_and_not_zero(explained):
    facts = {"cpu.mean": np.array([0.5, np.nan, np.inf])}
    lacking = ScorerResult(scores=scores(1, 1, 1), facts=facts, missing=mask(False, True, False))
    nodes = explained(("safe", Scorer(lacking), 1))["nodes"]
    said = [node["extenders"]["safe"] for node in nodes.values()]
    assert [one["facts"]["cpu.mean"] for one in said] == [0.5, None, "+Inf"]
    assert [one["missing"] for one in said] == [False, True, False]


def test_scorer_may_only_filter_or_only_rank(explained):
    filters = Scorer(ScorerResult(refusing(True, False, False)), priorities=())
    ranks = Scorer(ScorerResult(scores=scores(2, 2, 2)), predicates=())
    page = explained(("filters", filters, 1), ("ranks", ranks, 3))
    assert page["extenders"]["filters"] == {"filter": "fits", "prioritize": "", "weight": 1}
    assert [node["total"] for node in page["nodes"].values()] == [None, 60, 60]


def test_node_unknown_to_one_scorer_is_explained_without_it():
    """The cluster may change between two scorers."""
    early = Scorer(ScorerResult(scores=scores(1, 2, 3)))
    late = Scorer(ScorerResult(scores=scores(5, 6)))
    gone = Scorer(ScorerResult(scores=scores()))
    opinions = [
        explainpod.of_scorer("early", early, ClusterSnapshot(NODES), early.result, weight=1),
        explainpod.of_scorer(
            "late", late, ClusterSnapshot(NodeIndex(["c", "b"])), late.result, weight=1
        ),
        explainpod.of_scorer("gone", gone, ClusterSnapshot(NodeIndex()), gone.result, weight=1),
    ]
    nodes = to_builtins(dict(explainpod.explain(POD, opinions).nodes))
    assert {name: node["total"] for name, node in nodes.items()} == {"a": 10, "b": 80, "c": 80}
    assert set(nodes["a"]["extenders"]) == {"early"}


@pytest.fixture
def decision(parsed, rule):
    """A policy that rejects where `hot` is 1 and ranks by `load`, over NODES with these readings."""

    def decide_(hot, load):
        store = Store(stale_after=30.0, started=0.0)
        store.subscribe(["hot", "load"])
        for node, *values in zip(NODES, hot, load, strict=True):
            store.report(node, Delta(dict(zip(("hot", "load"), values, strict=True))), 0.0)
        policy = parsed(
            "demo",
            dontschedule=[rule("hot Equals 1")],
            scheduleonmetric=[rule("load LessThan 0")],
        )
        return decide([policy], NODES, store, now=1.0).policies[policy.key]

    return decide_


def test_policy_is_explained_as_one_more_extender(decision):
    said = decision(hot=(0, 1, 0), load=(5.0, 1.0, 3.0))
    policy = explainpod.of_policy(said, NODES, (), weight=3)
    nodes = to_builtins(dict(explainpod.explain(POD, [policy]).nodes))
    told = nodes["b"]["extenders"]["policies"]
    assert told["refused"] == {"dontschedule": "violating demo: hot Equals 1"}
    assert {name: node["total"] for name, node in nodes.items()} == {"a": 270, "b": None, "c": 300}


def test_policy_ranks_nodes_that_no_scorer_rejects(decision):
    """kube-scheduler requests scores of nodes that passed all filters, and ranks depend on the set of nodes."""
    said = decision(hot=(0, 0, 0), load=(5.0, 1.0, 3.0))
    other = Scorer(ScorerResult(refusing(False, True, False), scores(0, 0, 0)))
    other = explainpod.of_scorer("safe", other, ClusterSnapshot(NODES), other.result, weight=1)
    policy = explainpod.of_policy(said, NODES, [other], weight=1)
    nodes = to_builtins(dict(explainpod.explain(POD, [policy, other]).nodes))
    assert {name: node["total"] for name, node in nodes.items()} == {"a": 90, "b": None, "c": 100}


def test_empty_and_large_clusters_are_explained(explained):
    assert (
        explained(("safe", Scorer(ScorerResult(scores=scores())), 1), nodes=NodeIndex())["nodes"]
        == {}
    )
    many = NodeIndex(f"n{number}" for number in range(250))
    ranked = Scorer(ScorerResult(scores=scores(*(number % 11 for number in range(250)))))
    nodes = explained(("safe", ranked, 1), nodes=many)["nodes"]
    assert [nodes[f"n{number}"]["total"] for number in range(250)] == [
        number % 11 * 10 for number in range(250)
    ]


def test_pod_is_shown_as_scorers_receive_it(explained):
    page = explained(("safe", Scorer(ScorerResult(scores=scores(1, 1, 1))), 1))
    assert page["kind"] == "web"
    assert page["requests"] == {"cpu": 200.0}

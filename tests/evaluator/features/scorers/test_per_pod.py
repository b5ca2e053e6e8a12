"""Decisions for one pod: only rules on scorer metrics are compared again."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.requests import PodView
from evaluator.core.model.resources import Resource
from evaluator.core.policy import parse
from evaluator.core.policy.decide import decide
from evaluator.core.readings.store import Store
from evaluator.features.scorers.derived import NO_REQUESTS, ScorerMetrics, Scoring
from evaluator.features.scorers.plugin import ClusterSnapshot, ScorerResult
from evaluator.features.scorers.pod_explainer import MOST_REMEMBERED, PerPodDecisions
from tests.evaluator.features.scorers.share import Share
from tests.examples import examples
from wire.codec import Delta

NODES = NodeIndex(["a", "b", "c", "d"])
NOW = 1000.0
CPU = Resource.CPU


class TwoKindScorer:
    """A scorer that distinguishes two kinds of pods."""

    predicates = ()
    priorities = ()
    metrics = ()

    def score(self, view, pod):
        values = {"web": [1.0, 0.5, 0.2, 0.1], "job": [0.1, 0.2, 0.5, 1.0]}
        return ScorerResult(facts={"reward": np.array(values.get(pod.kind, [np.nan] * 4))})


class World:
    """Four nodes that report `m` (0, 1, 2, 3 by default), and the share of 1000m requested on each."""

    def __init__(self, requested, nodes=NODES, m=(0.0, 1.0, 2.0, 3.0)):
        self.scorer = Share()
        self.view = self.seen(requested, nodes)
        self.scoring = Scoring(
            {"safe": self.scorer, "reward": TwoKindScorer()}, snapshot=lambda: self.view
        )
        self.per_pod = PerPodDecisions(self.scoring)
        self.store = Store(stale_after=30.0, started=0.0)
        self.store.subscribe(["m"])
        for node, value in zip(NODES, m, strict=True):
            if value is not None:
                self.store.report(node, Delta({"m": value}), NOW)

    def seen(self, requested, nodes=NODES):
        return ClusterSnapshot(
            nodes, {CPU: np.full(len(nodes), 1000.0)}, {CPU: np.array(requested, float)}
        )

    def decide(self, *policies):
        return decide(policies, NODES, ScorerMetrics(self.store, self.scoring), now=NOW)

    def ask(self, decisions, pod=NO_REQUESTS):
        (decision,) = decisions.policies.values()
        return self.per_pod.decision(decision, decisions, pod)


def asks(cpu, **more):
    return PodView(requests={CPU: float(cpu)}, **more)


def risky(target=0.5, operator="GreaterThan", **more):
    return {"metricname": "plimsoll_risk_cpu", "operator": operator, "target": target, **more}


@pytest.fixture
def world():
    return World([100, 300, 400, 500])


def test_dontschedule_rejects_nodes_that_the_pod_would_overload(world, parsed):
    decisions = world.decide(parsed(dontschedule=[risky()]))
    reason = "violating demo: plimsoll_risk_cpu GreaterThan 0.5"
    assert dict(world.ask(decisions).dontschedule) == {}
    assert dict(world.ask(decisions, asks(150)).dontschedule) == dict.fromkeys("cd", reason)
    assert dict(world.ask(decisions, asks(500)).dontschedule) == dict.fromkeys("abcd", reason)


def test_cluster_wide_decision_uses_current_values(world, parsed):
    decisions = world.decide(parsed(dontschedule=[risky()], deschedule=[risky(0.45)]))
    (decision,) = decisions.policies.values()
    found = world.ask(decisions, asks(500))
    assert not decision.dontschedule
    assert found.deschedule is decision.deschedule
    assert list(found.deschedule) == ["d"]


@pytest.mark.parametrize(("logic", "violators"), [("anyOf", ["a", "c", "d"]), ("allOf", ["d"])])
def test_other_rules_keep_their_verdict(world, parsed, rule, logic, violators):
    body = {"rules": [rule("m Equals 3"), risky()], "logicalOperator": logic}
    if logic == "anyOf":
        body["rules"][0] = rule("m Equals 0")
    decisions = world.decide(parsed(dontschedule=body))
    assert list(world.ask(decisions, asks(150)).dontschedule) == violators


def test_rule_in_its_for_duration_is_not_hastened(world, parsed, rule):
    rules = [{**rule("m Equals 0"), "for": "10s"}, risky()]
    decisions = world.decide(parsed(dontschedule=rules))
    assert list(world.ask(decisions, asks(150)).dontschedule) == ["c", "d"]


def test_scheduleonmetric_ranks_by_the_value_with_the_pod(parsed):
    world = World([100, 300, 400, 500])
    rule = {"metricname": "plimsoll_reward", "operator": "GreaterThan", "target": 0}
    decisions = world.decide(parsed(scheduleonmetric=[rule]))
    for kind, best in (("web", "abcd"), ("job", "dcba")):
        scores = world.ask(decisions, PodView(kind=kind)).ranking.scores(NODES)
        assert [node for node, _ in sorted(scores, key=lambda pair: -pair[1])] == [*best]


@pytest.mark.parametrize(("when", "violators"), [("ignore", ["d"]), ("violate", ["b", "d"])])
def test_unknown_risk_follows_when_missing(parsed, when, violators):
    world = World([100, np.nan, 300, 500])
    decisions = world.decide(parsed(dontschedule=[risky(whenMissing=when)]))
    found = world.ask(decisions, asks(150))
    assert list(found.dontschedule) == violators
    if when == "violate":
        assert found.dontschedule["b"] == "violating demo: plimsoll_risk_cpu is missing"


def test_snapshot_of_other_nodes_is_matched_by_name(parsed):
    world = World([100, 300, 400, 500])
    decisions = world.decide(parsed(dontschedule=[risky(whenMissing="violate")]))
    world.view = world.seen([900, 0, 0], NodeIndex(["a", "d", "e"]))
    assert list(world.ask(decisions).dontschedule) == ["a", "b", "c"]


def test_equal_pods_share_one_cached_result(world, parsed):
    decisions = world.decide(
        parsed(dontschedule=[risky()], scheduleonmetric=[risky(0, "LessThan")])
    )
    before = world.scorer.asked
    first = world.ask(decisions, asks(150, name="ns/one", uid="1"))
    second = world.ask(decisions, asks(150, name="ns/two", uid="2", kind="web"))
    third = world.ask(decisions, PodView(requests={CPU: 150.0, Resource.MEMORY: 0.0}))
    assert first is second is third
    assert world.scorer.asked == before + 1


def test_new_snapshot_or_decision_is_evaluated_again(world, parsed):
    decisions = world.decide(parsed(dontschedule=[risky()]))
    assert list(world.ask(decisions, asks(150)).dontschedule) == ["c", "d"]
    world.view = world.seen([900, 0, 0, 0])
    assert list(world.ask(decisions, asks(150)).dontschedule) == ["a"]
    again = world.decide(parsed(dontschedule=[risky(0.1)]))
    assert list(world.ask(again, asks(150)).dontschedule) == [*"abcd"]


def test_cache_is_bounded(world, parsed):
    decisions = world.decide(parsed(dontschedule=[risky()]))
    for cpu in range(3 * MOST_REMEMBERED):
        world.ask(decisions, asks(cpu))
    asked = world.scorer.asked
    for cpu in range(2 * MOST_REMEMBERED, 3 * MOST_REMEMBERED):
        world.ask(decisions, asks(cpu))
    assert world.scorer.asked == asked
    world.ask(decisions, asks(1))
    assert world.scorer.asked == asked + 1


def test_policy_without_scorer_metrics_keeps_its_decision(world, parsed, rule):
    decisions = world.decide(parsed(dontschedule=[rule("m Equals 0")], deschedule=[risky()]))
    (decision,) = decisions.policies.values()
    asked = world.scorer.asked
    assert world.ask(decisions, asks(500)) is decision
    assert world.scorer.asked == asked


def test_decision_is_kept_without_a_snapshot(world, parsed):
    decisions = world.decide(parsed(dontschedule=[risky()]))
    (decision,) = decisions.policies.values()
    world.view = None
    assert world.ask(decisions, asks(500)) is decision


METRICS = st.sampled_from(["m", "plimsoll_risk", "plimsoll_risk_cpu", "plimsoll_reward"])
RULES = st.fixed_dictionaries(
    {
        "metricname": METRICS,
        "operator": st.sampled_from(["GreaterThan", "LessThan", "Equals"]),
        "target": st.sampled_from([0, 0.1, 0.25, 0.5, 1, 2]),
        "whenMissing": st.sampled_from(["ignore", "violate"]),
    }
)
AMOUNTS = st.lists(
    st.sampled_from([0.0, 100.0, 250.0, 500.0, 900.0, np.nan]), min_size=4, max_size=4
)


@given(
    rules=st.lists(RULES, min_size=1, max_size=4),
    logic=st.sampled_from(["anyOf", "allOf"]),
    requested=AMOUNTS,
    m=st.lists(st.sampled_from([None, 0.0, 1.0, 2.0]), min_size=4, max_size=4),
)
def test_pod_without_requests_keeps_the_decision(rules, logic, requested, m):
    world = World(requested, m=m)
    strategies = {
        "dontschedule": {"rules": rules, "logicalOperator": logic},
        "scheduleonmetric": {"rules": rules[:1]},
    }
    named = {"namespace": "ns", "name": "demo"}
    read = parse.parse({"metadata": named, "spec": {"strategies": strategies}})
    decisions = world.decide(read)
    (decision,) = decisions.policies.values()
    found = world.ask(decisions, PodView(requests={CPU: 0.0}))
    assert dict(found.dontschedule) == dict(decision.dontschedule)
    assert found.ranking.scores(NODES) == decision.ranking.scores(NODES)


@settings(max_examples=examples(25))
@given(requested=AMOUNTS, cpu=st.integers(0, 1000), more=st.integers(0, 1000))
def test_larger_pod_is_never_accepted_where_a_smaller_is_rejected(requested, cpu, more):
    world = World(requested)
    named = {"namespace": "ns", "name": "demo"}
    strategies = {"dontschedule": {"rules": [risky()]}}
    read = parse.parse({"metadata": named, "spec": {"strategies": strategies}})
    decisions = world.decide(read)
    less, much = (set(world.ask(decisions, asks(c)).dontschedule) for c in (cpu, cpu + more))
    assert less <= much

"""Quantities as columns: for a pod that asks for nothing, missing and awaited as readings are."""

import numpy as np
import pytest

from evaluator.model.node_index import NodeIndex
from evaluator.model.pod_demand import Resource
from evaluator.policy.decide import decide
from evaluator.policy.scorer_metrics import LOOK, OFF, SOON, ScorerMetrics, Scoring
from evaluator.readings.column import NEVER
from evaluator.readings.store import Store
from evaluator.scoring.snapshot import ClusterSnapshot
from tests.evaluator.scoring.share import Share
from wire.codec import Delta

NODES = NodeIndex(["a", "b", "c"])
NOW = 1000.0


def seen(*requested, nodes=NODES):
    size = len(nodes)
    cpu = Resource.CPU
    return ClusterSnapshot(nodes, {cpu: np.full(size, 1000.0)}, {cpu: np.array(requested, float)})


@pytest.fixture
def store():
    store = Store(stale_after=30.0, started=NOW)
    store.subscribe(["used", "m"])
    return store


def quantified(store, view, scorer=None):
    return ScorerMetrics(store, Scoring({"safe": scorer or Share()}, lambda: view))


def test_a_column_is_of_this_moment_and_for_a_pod_that_asks_for_nothing(store):
    column = quantified(store, seen(100, 500, 900)).column("plimsoll_risk_cpu", NODES, NOW)
    assert column.values.tolist() == [0.1, 0.5, 0.9]
    assert column.usable.all()
    assert not column.unreported.any()
    assert column.at.tolist() == [NOW] * 3


def test_where_the_scorer_cannot_tell_it_is_missing(store):
    later = NOW + 60.0
    store.report("b", Delta({"used": 1.0}), NOW)
    column = quantified(store, seen(100, np.nan, np.nan)).column("plimsoll_risk_cpu", NODES, later)
    assert column.usable.tolist() == [True, False, False]
    assert column.at.tolist() == [later, NOW, NEVER]
    assert not column.unreported.any()


def test_it_is_awaited_where_the_first_word_on_what_the_scorer_takes_is(store):
    store.report("b", Delta({"used": 1.0}), NOW)
    column = quantified(store, seen(np.nan, np.nan, 900)).column("plimsoll_risk_cpu", NODES, NOW)
    assert column.unreported.tolist() == [True, False, False]


def test_all_is_awaited_until_there_is_a_survey(store):
    column = quantified(store, None).column("plimsoll_risk_cpu", NODES, NOW)
    assert column.unreported.all()
    assert not column.usable.any()


def test_a_node_that_the_survey_has_not_seen_is_missing_and_others_find_their_own(store):
    store.started = 0.0
    view = seen(900, 100, nodes=NodeIndex(["c", "a"]))
    column = quantified(store, view).column("plimsoll_risk_cpu", NODES, NOW)
    np.testing.assert_array_equal(column.values, [0.1, np.nan, 0.9])
    assert column.usable.tolist() == [True, False, True]


def test_columns_of_one_scorer_cost_one_assessment_for_a_survey(store):
    scorer = Share()
    readings = quantified(store, seen(1, 2, 3), scorer)
    for name in ("plimsoll_risk", "plimsoll_risk_cpu", "plimsoll_risk_memory", "plimsoll_risk"):
        readings.column(name, NODES, NOW)
    assert scorer.asked == 1


def test_another_survey_is_another_column(store):
    view = seen(100, 500, 900)
    readings = ScorerMetrics(store, Scoring({"safe": Share()}, lambda: view))
    readings.column("plimsoll_risk", NODES, NOW)
    view = seen(200, 500, 900)
    assert readings.column("plimsoll_risk", NODES, NOW).values.tolist() == [0.2, 0.5, 0.9]


def test_quantities_are_looked_at_again_although_nobody_says_that_they_changed(store):
    view = None
    readings = ScorerMetrics(store, Scoring({"safe": Share()}, lambda: view))
    readings.subscribe(["m"])
    before = readings.next_expiry(NOW)
    assert before == store.next_expiry(NOW)
    readings.column("plimsoll_risk", NODES, NOW)
    assert readings.next_expiry(NOW) == NOW + SOON
    view = seen(1, 2, 3)
    readings.column("plimsoll_risk", NODES, NOW)
    assert readings.next_expiry(NOW) == NOW + LOOK
    readings.subscribe(["m"])
    assert readings.next_expiry(NOW) == before


def test_a_metric_is_read_as_ever(store):
    store.report("b", Delta({"m": 7.0}), NOW)
    column = quantified(store, None).column("m", NODES, NOW)
    assert column.values[1] == 7.0


def test_no_source_is_asked_for_a_quantity(store):
    class Asked(Store):
        def subscribe(self, metrics):
            self.wanted = set(metrics)

    asked = Asked(stale_after=30.0, started=NOW)
    ScorerMetrics(asked, OFF).subscribe(["m", "plimsoll_risk"])
    assert asked.wanted == {"m"}


def test_without_the_scorer_the_policy_says_what_to_switch_on(store, parsed, rule):
    policy = parsed(dontschedule=[rule("plimsoll_congestion GreaterThan 0")])
    decisions = decide([policy], NODES, ScorerMetrics(store, OFF), now=NOW)
    (decision,) = decisions.policies.values()
    assert decision.problems == (
        "no source has metric plimsoll_congestion (the scorer congestion works it out, and is off: "
        "start the evaluator with --scorers=congestion)",
    )
    assert not decision.unreported
    assert not decision.dontschedule


def test_a_scorer_that_fails_ends_no_decision(store, parsed, rule, caplog):
    class Broken(Share):
        def assess(self, view, pod):
            raise ZeroDivisionError

    store.started = 0.0
    store.report("b", Delta({"m": 7.0}), NOW)
    broken = parsed("broken", dontschedule=[rule("plimsoll_risk GreaterThan 0")])
    other = parsed("other", dontschedule=[rule("m Equals 7")])
    readings = quantified(store, seen(1, 2, 3), Broken())
    decisions = decide([broken, other], NODES, readings, now=NOW)
    assert [list(d.dontschedule) for d in decisions.policies.values()] == [[], ["b"]]
    assert decisions.policies[broken.key].problems == (
        "no source has metric plimsoll_risk (scorer safe failed: ZeroDivisionError)",
    )
    assert "scorer safe failed" in caplog.text


def test_every_strategy_sees_how_a_node_is_now(store, parsed):
    rule = {"metricname": "plimsoll_risk", "operator": "GreaterThan", "target": 0.3}
    policy = parsed(
        dontschedule=[rule],
        deschedule=[rule],
        labeling=[{**rule, "labels": ["hot=yes"]}],
        scheduleonmetric=[{**rule, "operator": "LessThan"}],
    )
    decisions = decide([policy], NODES, quantified(store, seen(100, 300, 400)), now=NOW)
    (decision,) = decisions.policies.values()
    reason = "violating demo: plimsoll_risk GreaterThan 0.3"
    assert dict(decision.dontschedule) == dict(decision.deschedule) == {"c": reason}
    assert decision.labels["c"]["telemetry.aware.scheduling.demo/hot"] == "yes"
    assert decision.ranking.scores(NODES) == [("a", 10), ("b", 9), ("c", 8)]
    assert decision.problems == ()


def test_time_runs_for_a_node_and_so_in_deschedule(store, parsed):
    rule = {"metricname": "plimsoll_risk", "operator": "GreaterThan", "target": 0.3, "for": "10s"}
    readings = quantified(store, seen(100, 300, 400))
    policy = parsed(deschedule=[rule])
    first = decide([policy], NODES, readings, now=NOW)
    later = decide([policy], NODES, readings, now=NOW + 10, before=first)
    found = [list(d.policies[policy.key].deschedule) for d in (first, later)]
    assert found == [[], ["c"]]

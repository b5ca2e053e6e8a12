"""Scorer metrics for rules: names, facts, and the sources' metrics they replace."""

import numpy as np
import pytest

from evaluator.core.isolation import Part
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.requests import PodView
from evaluator.core.model.resources import Resource
from evaluator.core.policy.decide import decide
from evaluator.core.readings.column import NEVER
from evaluator.core.readings.store import Store
from evaluator.features.scorers import derived
from evaluator.features.scorers.derived import (
    DERIVED_METRICS,
    NO_REQUESTS,
    OFF,
    REFRESH,
    RETRY,
    ScorerMetrics,
    Scoring,
)
from evaluator.features.scorers.plugin import ClusterSnapshot, NodeUsageArrays, ScorerResult
from evaluator.features.scorers.plugins.congestion import Congestion, CongestionOptions
from evaluator.features.scorers.plugins.reward import Reward
from evaluator.features.scorers.plugins.safe import Safe, SafeOptions
from evaluator.features.scorers.rewards import Rewards
from tests.evaluator.features.scorers.share import Share
from wire.codec import Delta

VIEW = ClusterSnapshot(NodeIndex(["a", "b", "c"]))
NODES = NodeIndex(["a", "b", "c"])
NOW = 1000.0


class Known:
    """A scorer with given facts that counts its calls."""

    predicates = ()
    priorities = ()
    metrics = ("used", "deviation")

    def __init__(self, **facts):
        self.facts = {name.replace("_", "."): np.array(v, float) for name, v in facts.items()}
        self.asked = 0

    def score(self, view, pod):
        self.asked += 1
        return ScorerResult(facts=self.facts)


@pytest.fixture
def safe():
    nan = np.nan
    return Known(cpu_risk=[0.1, nan, nan], memory_risk=[0.5, 0.2, nan])


def test_risk_is_the_larger_of_the_known_ones(safe):
    found = derived.values(["plimsoll_risk"], {"safe": safe}, VIEW, NO_REQUESTS)
    np.testing.assert_array_equal(found["plimsoll_risk"], [0.5, 0.2, np.nan])


def test_scorer_is_run_once_for_all_its_metrics(safe):
    names = ["plimsoll_risk", "plimsoll_risk_cpu", "plimsoll_risk_memory"]
    assert set(derived.values(names, {"safe": safe}, VIEW, NO_REQUESTS)) == set(names)
    assert safe.asked == 1


def test_metric_without_a_scorer_is_omitted(safe):
    names = ["plimsoll_congestion", "plimsoll_risk_cpu"]
    assert set(derived.values(names, {"safe": safe}, VIEW, NO_REQUESTS)) == {"plimsoll_risk_cpu"}


def test_sources_are_never_queried_for_derived_metrics():
    assert derived.measured(frozenset({"load1", *DERIVED_METRICS})) == {"load1"}


def test_plain_metrics_are_unchanged():
    named = frozenset({"load1", "plimsoll_agent_up"})
    assert derived.measured(named) is named


def test_scorers_provide_the_metrics_that_rules_read():
    cpu, memory = (np.array([100.0, 100.0, np.nan]), np.array([10.0, 20.0, 30.0]))
    view = ClusterSnapshot(
        VIEW.nodes,
        allocatable={Resource.CPU: cpu, Resource.MEMORY: 10 * memory},
        usage={
            Resource.CPU: NodeUsageArrays(
                np.array([80.0, 10.0, 1.0]), np.array([0.0] * 3), VIEW.unknown
            ),
            Resource.MEMORY: NodeUsageArrays(9 * memory, 0 * memory, VIEW.unknown),
        },
        congestion=np.array([0.0, 0.25, np.nan]),
        rewards=Rewards().observed("web", "b", 0),
    )
    scorers = {
        "safe": Safe(SafeOptions()),
        "congestion": Congestion(CongestionOptions()),
        "reward": Reward(),
    }
    pod = PodView(requests={Resource.CPU: 5.0}, kind="web")
    found = derived.values(DERIVED_METRICS, scorers, view, pod)
    known = {name: np.round(values, 6).tolist() for name, values in found.items()}
    assert known.pop("plimsoll_risk_cpu")[:2] == [0.0, 1.0]
    assert np.isnan(found["plimsoll_risk_cpu"][2])
    assert known.pop("plimsoll_congestion")[:2] == [0.0, 0.25]
    assert np.isnan(found["plimsoll_congestion"][2])
    assert known == {
        "plimsoll_risk": [0.0, 1.0, 0.0],
        "plimsoll_risk_memory": [0.0, 0.0, 0.0],
        "plimsoll_reward": [1.0, 0.9, 1.0],
    }


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


def test_column_is_current_and_without_a_pod(store):
    column = quantified(store, seen(100, 500, 900)).column("plimsoll_risk_cpu", NODES, NOW)
    assert column.values.tolist() == [0.1, 0.5, 0.9]
    assert column.usable.all()
    assert not column.unreported.any()
    assert column.at.tolist() == [NOW] * 3


def test_unknown_scorer_value_is_missing(store):
    later = NOW + 60.0
    store.report("b", Delta({"used": 1.0}), NOW)
    column = quantified(store, seen(100, np.nan, np.nan)).column("plimsoll_risk_cpu", NODES, later)
    assert column.usable.tolist() == [True, False, False]
    assert column.at.tolist() == [later, NOW, NEVER]
    assert not column.unreported.any()


def test_column_is_pending_while_its_inputs_are(store):
    store.report("b", Delta({"used": 1.0}), NOW)
    column = quantified(store, seen(np.nan, np.nan, 900)).column("plimsoll_risk_cpu", NODES, NOW)
    assert column.unreported.tolist() == [True, False, False]


def test_column_is_pending_until_the_first_snapshot(store):
    column = quantified(store, None).column("plimsoll_risk_cpu", NODES, NOW)
    assert column.unreported.all()
    assert not column.usable.any()


def test_node_absent_from_the_snapshot_is_missing_and_others_match_by_name(store):
    store.started = 0.0
    view = seen(900, 100, nodes=NodeIndex(["c", "a"]))
    column = quantified(store, view).column("plimsoll_risk_cpu", NODES, NOW)
    np.testing.assert_array_equal(column.values, [0.1, np.nan, 0.9])
    assert column.usable.tolist() == [True, False, True]


def test_columns_of_one_scorer_share_an_assessment_per_snapshot(store):
    scorer = Share()
    readings = quantified(store, seen(1, 2, 3), scorer)
    for name in ("plimsoll_risk", "plimsoll_risk_cpu", "plimsoll_risk_memory", "plimsoll_risk"):
        readings.column(name, NODES, NOW)
    assert scorer.asked == 1


def test_new_snapshot_makes_a_new_column(store):
    view = seen(100, 500, 900)
    readings = ScorerMetrics(store, Scoring({"safe": Share()}, lambda: view))
    readings.column("plimsoll_risk", NODES, NOW)
    view = seen(200, 500, 900)
    assert readings.column("plimsoll_risk", NODES, NOW).values.tolist() == [0.2, 0.5, 0.9]


def test_scorer_metrics_are_reevaluated_without_a_change_notice(store):
    view = None
    readings = ScorerMetrics(store, Scoring({"safe": Share()}, lambda: view))
    readings.subscribe(["m"])
    before = readings.next_expiry(NOW)
    assert before == store.next_expiry(NOW)
    readings.column("plimsoll_risk", NODES, NOW)
    assert readings.next_expiry(NOW) == NOW + RETRY
    view = seen(1, 2, 3)
    readings.column("plimsoll_risk", NODES, NOW)
    assert readings.next_expiry(NOW) == NOW + REFRESH
    readings.subscribe(["m"])
    assert readings.next_expiry(NOW) == before


def test_plain_metric_is_read_unchanged(store):
    store.report("b", Delta({"m": 7.0}), NOW)
    column = quantified(store, None).column("m", NODES, NOW)
    assert column.values[1] == 7.0


def test_no_source_is_queried_for_a_scorer_metric(store):
    class CountingStore(Store):
        def subscribe(self, metrics):
            self.wanted = set(metrics)

    asked = CountingStore(stale_after=30.0, started=NOW)
    ScorerMetrics(asked, OFF).subscribe(["m", "plimsoll_risk"])
    assert asked.wanted == {"m"}


def test_policy_names_the_flag_of_the_missing_scorer(store, parsed, rule):
    policy = parsed(dontschedule=[rule("plimsoll_congestion GreaterThan 0")])
    decisions = decide([policy], NODES, ScorerMetrics(store, OFF), now=NOW)
    (decision,) = decisions.policies.values()
    assert decision.problems == (
        "no source has metric plimsoll_congestion (its scorer congestion is not enabled: "
        "start the evaluator with --scorers=congestion)",
    )
    assert not decision.unreported
    assert not decision.dontschedule


def test_failing_scorer_ends_no_decision(store, parsed, rule):
    class Broken(Share):
        def score(self, view, pod):
            raise ZeroDivisionError

    store.started = 0.0
    store.report("b", Delta({"m": 7.0}), NOW)
    broken = parsed("broken", dontschedule=[rule("plimsoll_risk GreaterThan 0")])
    other = parsed("other", dontschedule=[rule("m Equals 7")])
    errors = []
    guard = Part("derived metrics", lambda: errors.append("one"))
    view = seen(1, 2, 3)
    readings = ScorerMetrics(store, Scoring({"safe": Broken()}, lambda: view, guard))
    decisions = decide([broken, other], NODES, readings, now=NOW)
    assert [list(d.dontschedule) for d in decisions.policies.values()] == [[], ["b"]]
    assert decisions.policies[broken.key].problems == (
        "no source has metric plimsoll_risk (scorer safe failed: ZeroDivisionError)",
    )
    assert errors


def test_every_strategy_uses_current_node_values(store, parsed):
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


def test_deschedule_on_a_scorer_metric_has_durations(store, parsed):
    rule = {"metricname": "plimsoll_risk", "operator": "GreaterThan", "target": 0.3, "for": "10s"}
    readings = quantified(store, seen(100, 300, 400))
    policy = parsed(deschedule=[rule])
    first = decide([policy], NODES, readings, now=NOW)
    later = decide([policy], NODES, readings, now=NOW + 10, before=first)
    found = [list(d.policies[policy.key].deschedule) for d in (first, later)]
    assert found == [[], ["c"]]

"""Scorer metrics for rules: names, facts, and the sources' metrics they replace."""

import numpy as np
import pytest

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.pod_demand import PodView, Resource
from evaluator.features.scorers import derived
from evaluator.features.scorers.derived import DERIVED_METRICS, NO_REQUESTS
from evaluator.features.scorers.learning.rewards import Rewards
from evaluator.features.scorers.plugin import ScorerResult
from evaluator.features.scorers.plugins.congestion import Congestion, CongestionOptions
from evaluator.features.scorers.plugins.reward import Reward
from evaluator.features.scorers.plugins.safe import Safe, SafeOptions
from evaluator.features.scorers.snapshot import ClusterSnapshot, NodeUsageArrays

VIEW = ClusterSnapshot(NodeIndex(["a", "b", "c"]))


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

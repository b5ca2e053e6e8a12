"""Which scorers run, when results are cached, and the demand they receive."""

from types import SimpleNamespace

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.requests import PodView
from evaluator.core.model.resources import Resource
from evaluator.features.scorers.plugin import ClusterSnapshot, Demands, NodeRejection, ScorerResult
from evaluator.features.scorers.runner import ScorerError, ScorerRunner, ScoringMetrics

NODES = NodeIndex(("a", "b"))


class Recorder:
    """A scorer that records requests and returns given results."""

    predicates = ("filters",)
    priorities = ("scores",)
    metrics = ()

    def __init__(self, answer=None):
        self.asked = []
        self._answer = answer or ScorerResult(scores={"scores": np.array([1, 2])})

    def score(self, view, pod):
        self.asked.append((view, pod))
        return self._answer


def pod(number=1, cpu=100.0, kind="web"):
    return PodView(f"ns/p{number}", f"u{number}", kind, {Resource.CPU: cpu})


def runner(scorer, *, name="pigeon"):
    snapshotter = SimpleNamespace(waiting_for=[], now=ClusterSnapshot(NODES))
    snapshotter.view = lambda: snapshotter.now
    made = ScorerRunner(
        {name: scorer}, snapshotter, ScoringMetrics(CollectorRegistry()), demands=Demands()
    )
    return made, snapshotter


def test_equal_pods_share_one_assessment():
    scorer = Recorder()
    asked, _ = runner(scorer, name="safe")
    first, second = asked.run("safe", pod(1)), asked.run("safe", pod(2))
    assert (first.remembered, second.remembered) == (False, True)
    assert first.result is second.result
    assert len(scorer.asked) == 1


@pytest.mark.parametrize(
    "other", [pod(cpu=200.0), pod(kind="db"), PodView("ns/p1", "u1", "web", {})]
)
def test_different_pod_needs_another_assessment(other):
    scorer = Recorder()
    asked, _ = runner(scorer, name="safe")
    asked.run("safe", pod())
    assert not asked.run("safe", other).remembered
    assert len(scorer.asked) == 2


def test_cache_keeps_nothing_of_an_earlier_snapshot():
    scorer = Recorder()
    asked, snapshotter = runner(scorer, name="safe")
    asked.run("safe", pod())
    snapshotter.now = ClusterSnapshot(NODES)
    found = asked.run("safe", pod())
    assert (found.remembered, found.view) == (False, snapshotter.now)


def test_cache_is_bounded_and_evicts_the_oldest():
    scorer = Recorder()
    asked, _ = runner(scorer, name="safe")
    for cpu in range(1, 1001):
        asked.run("safe", pod(cpu=float(cpu)))
    assert len(asked._cached) < 100
    assert asked.run("safe", pod(cpu=1000.0)).remembered
    assert not asked.run("safe", pod(cpu=1.0)).remembered


def demands(scorer):
    return [view.demands.count for view, _ in scorer.asked]


def test_each_pod_counts_once_as_demand():
    scorer = Recorder()
    asked, snapshotter = runner(scorer)
    for number in (1, 1, 2, 1):
        snapshotter.now = ClusterSnapshot(NODES)
        asked.run("pigeon", pod(number))
    assert demands(scorer) == [1, 1, 2, 2]


def test_requests_about_one_pod_share_one_assessment_with_demand_too():
    scorer = Recorder()
    asked, _ = runner(scorer)
    assert [asked.run("pigeon", pod()).remembered for _ in range(3)] == [False, True, True]


def test_demand_is_private_to_its_scorer():
    scorer = Recorder()
    asked, snapshotter = runner(scorer, name="safe")
    assert asked.run("safe", pod()).view is snapshotter.now


def test_explaining_changes_nothing():
    scorer = Recorder()
    asked, _ = runner(scorer)
    asked.run_uncached("pigeon", pod(7))
    asked.run("pigeon", pod(1))
    assert demands(scorer) == [0, 1]


BAD = {
    "too few scores": ScorerResult(scores={"scores": np.array([1])}),
    "a table": ScorerResult(scores={"scores": np.ones((2, 2), dtype=int)}),
    "no integers": ScorerResult(scores={"scores": np.array([1.0, np.nan])}),
    "11": ScorerResult(scores={"scores": np.array([1, 11])}),
    "-1": ScorerResult(scores={"scores": np.array([-1, 1])}),
    "no arrays": ScorerResult(scores={"scores": [1, 2]}),
    "another's name": ScorerResult(scores={"others": np.array([1, 2])}),
    "a short mask": ScorerResult({"filters": [NodeRejection(np.array([True]), "x")]}),
    "no mask": ScorerResult({"filters": [NodeRejection(np.array([1, 0]), "x")]}),
    "a short missing": ScorerResult(missing=np.array([True])),
    "nothing": SimpleNamespace(),
}


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD.keys())
def test_invalid_result_is_a_failure_of_the_scorer_and_not_cached(answer):
    scorer = Recorder(answer)
    asked, _ = runner(scorer, name="odd")
    for _ in range(2):
        with pytest.raises(ScorerError, match="scorer odd failed"):
            asked.run("odd", pod())
    assert len(scorer.asked) == 2

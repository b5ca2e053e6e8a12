"""A policy on a scorer's metrics is decided once there is a snapshot."""

import numpy as np

from evaluator.core.loop.loop import DecisionParts
from evaluator.core.model.node_index import NodeIndex
from evaluator.features.scorers.derived import ScorerMetrics, Scoring
from evaluator.features.scorers.plugin import ClusterSnapshot, ScorerResult
from tests.evaluator.core.loop.loop_world import KEY, DecisionLoopWorld


def test_nodes_are_pending_until_the_first_snapshot(parsed, rule):
    class Scorer:
        predicates = priorities = metrics = ()

        def score(self, view, pod):
            return ScorerResult(facts={"cpu.risk": np.array([0.5]), "memory.risk": np.array([1.5])})

    view = None
    world = DecisionLoopWorld()
    scoring = Scoring({"safe": Scorer()}, lambda: view)
    world.decider.extend(DecisionParts(layer=lambda readings: ScorerMetrics(readings, scoring)))
    world.know(parsed("demo-policy", dontschedule=[rule("plimsoll_risk GreaterThan 1")]), nodes="a")
    world.decider.evaluate()
    assert list(world.decider.waiting_for) == ["the first report of 1 node"]
    view = ClusterSnapshot(NodeIndex("a"))
    world.decider.evaluate()
    assert not world.decider.waiting_for
    assert list(world.decider.current().policies[KEY].dontschedule) == ["a"]

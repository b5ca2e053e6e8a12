"""What rules may compare beside readings: which names, from which facts, and what is asked of sources instead."""

import numpy as np
import pytest

from evaluator.nodes import Nodes
from evaluator.scoring import quantities
from evaluator.scoring.protocol import Assessment
from evaluator.scoring.quantities import NOBODY, QUANTITIES
from evaluator.scoring.view import ClusterView

VIEW = ClusterView(Nodes(["a", "b", "c"]))


class Known:
    """A scorer with given facts, which counts how often it is asked."""

    predicates = ()
    priorities = ()
    metrics = ("used", "deviation")

    def __init__(self, **facts):
        self.facts = {name.replace("_", "."): np.array(v, float) for name, v in facts.items()}
        self.asked = 0

    def assess(self, view, pod):
        self.asked += 1
        return Assessment(facts=self.facts)


@pytest.fixture
def safe():
    nan = np.nan
    return Known(cpu_risk=[0.1, nan, nan], memory_risk=[0.5, 0.2, nan])


def test_risk_is_the_greater_of_those_that_are_known(safe):
    found = quantities.values(["plimsoll_risk"], {"safe": safe}, VIEW, NOBODY)
    np.testing.assert_array_equal(found["plimsoll_risk"], [0.5, 0.2, np.nan])


def test_a_scorer_is_asked_once_for_all_that_it_tells(safe):
    names = ["plimsoll_risk", "plimsoll_risk_cpu", "plimsoll_risk_memory"]
    assert set(quantities.values(names, {"safe": safe}, VIEW, NOBODY)) == set(names)
    assert safe.asked == 1


def test_what_has_no_scorer_is_left_out(safe):
    names = ["plimsoll_congestion", "plimsoll_risk_cpu"]
    assert set(quantities.values(names, {"safe": safe}, VIEW, NOBODY)) == {"plimsoll_risk_cpu"}


def test_sources_are_asked_for_what_the_scorer_takes_and_never_for_a_quantity(safe):
    named = frozenset({"load1", "plimsoll_risk_cpu"})
    assert quantities.measured(named, {"safe": safe}) == {"load1", "used", "deviation"}
    assert quantities.measured(frozenset({*named, *QUANTITIES}), {}) == {"load1"}


def test_metrics_alone_are_left_as_they_are(safe):
    named = frozenset({"load1", "plimsoll_agent_up"})
    assert quantities.measured(named, {"safe": safe}) is named

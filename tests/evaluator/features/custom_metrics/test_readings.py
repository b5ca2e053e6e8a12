"""Which readings are served: those of now, node conditions, and metrics that scorers derive."""

import numpy as np

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.policy.decide import Decisions
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.readings.column import NEVER, unknown
from evaluator.features.custom_metrics.readings import CurrentReadings

NODES = NodeIndex(["node-a", "node-b"])
EPOCH = 1_700_000_000.0


def column(values, at):
    known = unknown(2, unreported=False)._replace(
        measured=np.array(values), at=np.array(at), samples=np.ones(2, np.int32)
    )
    return known._replace(fresh=np.ones(2, bool))


class Fixed:
    """Readings with one column for every metric."""

    def __init__(self, found):
        self.found = found

    def column(self, _metric, _nodes, _now):
        return self.found


def current(found, decisions=None):
    return CurrentReadings(
        Fixed(found),
        lambda: NODES,
        lambda: decisions or Decisions(),
        clock=lambda: 50.0,
        wall=lambda: EPOCH + 50.0,
        derived=frozenset({"plimsoll_risk"}),
    )


def test_condition_without_a_time_was_measured_now():
    found = current(column([1.0, 0.0], [NEVER, 20.7])).read("node_condition_Ready")
    measured = found.measured(found.usable.nonzero()[0])
    assert measured.seconds.tolist() == [EPOCH + 50, EPOCH + 20]


def test_derived_metric_is_that_of_the_latest_decisions():
    decided = column([0.25, np.nan], [40.0, 40.0])
    decisions = Decisions(table=MetricTable(NODES, {"plimsoll_risk": decided}))
    found = current(column([9.0, 9.0], [0.0, 0.0]), decisions).read("plimsoll_risk")
    assert found.measured(found.usable.nonzero()[0]).values.tolist() == [0.25]


def test_derived_metric_without_a_decision_has_no_reading():
    found = current(column([9.0, 9.0], [0.0, 0.0])).read("plimsoll_risk")
    assert not found.usable.any()

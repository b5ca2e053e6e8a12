"""Models of other systems' placement, from their published formulas and defaults, with their own lag of readings.

Each is a model, written from documentation; the output names it so. Sources are in the docstrings.
"""

import numpy as np

from evaluator.core.readings.column import Floats
from evaluator.tools.closed_loop.kube_scheduler import Positions, Scores
from evaluator.tools.closed_loop.systems import DefaultPlugins
from evaluator.tools.closed_loop.use import UseHistory
from evaluator.tools.closed_loop.workload import Nodes, SimulatedPod

_SCRAPE = 15.0
"""Seconds between two scrapes of node_exporter."""


class TelemetryAwareScheduling(DefaultPlugins):
    """Telemetry Aware Scheduling with scheduleonmetric and dontschedule on CPU use.

    It scores 10 for the node with the least use, 9 for the next, and so on, below 0 from the twelfth node on. It reads the
    custom metrics API every 5 s (`syncPeriod`); Prometheus behind it scrapes every 15 s, with a rate over a minute.
    """

    period = _SCRAPE

    def __init__(self, nodes: Nodes, refused_from: float, weight: int) -> None:
        self._cores = nodes.cores
        self._refused_from = refused_from
        self._weight = weight
        self._use: Floats = np.zeros(nodes.count)

    def read(self, now: float, history: UseHistory) -> None:
        """Take the readings of the last scrape, which it sees up to 5 s later."""
        self._use = history.mean(60, age=5) / self._cores

    def permitted(self, pod: SimulatedPod, feasible: Positions, now: float) -> Positions:
        """Return the nodes at or below the target of dontschedule."""
        passing: Positions = feasible[self._use[feasible] <= self._refused_from]
        return passing

    def scores(self, pod: SimulatedPod, feasible: Positions, now: float) -> Scores:
        """Return 10 less the rank, times 10 and the weight."""
        ranks = np.argsort(np.argsort(self._use[feasible], kind="stable"))
        found: Scores = (10 - ranks) * 10 * self._weight
        return found

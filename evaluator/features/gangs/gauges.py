"""Gauges of gangs: number by state, gated pods, longest wait. Computed at each scrape."""

from collections.abc import Callable
from functools import partial

from evaluator.features.gangs.core.index import GangIndex
from evaluator.features.gangs.core.types import GangDecisions, GangState
from evaluator.features.gangs.metrics import GangMetrics


def show(
    metrics: GangMetrics,
    index: GangIndex,
    decisions: Callable[[], GangDecisions],
    clock: Callable[[], float],
) -> None:
    """Bind the gauges to the latest decisions; `clock` returns Unix time."""

    def count(state: GangState) -> int:
        return sum(verdict.state is state for verdict in decisions().verdicts.values())

    def gated() -> int:
        return len(index.native) + sum(len(gang.gated) for gang in index.gangs)

    def oldest_wait() -> float:
        """Gangs without a creation time are left out."""
        verdicts = decisions().verdicts.values()
        waiting = [verdict.since for verdict in verdicts if verdict.state.waits and verdict.since]
        return max(0.0, clock() - min(waiting)) if waiting else 0.0

    for state in GangState:
        metrics.gangs.labels(state.value).set_function(partial(count, state))
    metrics.gang_pods_gated.set_function(gated)
    metrics.gang_oldest_wait.set_function(oldest_wait)

"""The metrics of gangs and of the webhook."""

from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from evaluator.features.gangs.core.podgroup import GangIndex
from evaluator.features.gangs.core.types import GangDecisions, GangState


class GangMetrics:
    """The metrics of gangs and of the webhook."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.gangs = Gauge("plimsoll_gangs", "Gangs by state.", ["state"], registry=registry)
        self.gangs_obstructed = Gauge(
            "plimsoll_gangs_obstructed",
            "Gangs without pods that their controllers do not create; the Event GangCannotComplete has the reason.",
            registry=registry,
        )
        self.gang_pods_gated = Gauge(
            "plimsoll_gang_pods_gated",
            "Pods held by the scheduling gate.",
            registry=registry,
        )
        self.gang_oldest_wait = Gauge(
            "plimsoll_gang_oldest_wait_seconds",
            "Waiting time of the oldest waiting gang; 0 if none waits.",
            registry=registry,
        )
        self.gang_waits = Histogram(
            "plimsoll_gang_wait_seconds",
            "Time from a gang's oldest pod to its release.",
            buckets=(1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400),
            registry=registry,
        )
        self.gang_releases = Counter(
            "plimsoll_gang_releases",
            "Releases of gang pods by reason.",
            ["reason"],
            registry=registry,
        )
        self.gang_timeouts = Counter(
            "plimsoll_gang_timeouts",
            "Released gangs that timed out before all of their pods were bound.",
            registry=registry,
        )
        self.gates_lifted = Counter(
            "plimsoll_gang_gates_lifted",
            "Gate removals by result.",
            ["result"],
            registry=registry,
        )
        self.gang_admissions = Counter(
            "plimsoll_gang_admissions",
            "Admission requests for new pods by result: gated, left unchanged, or refused.",
            ["result"],
            registry=registry,
        )
        for result in ("gated", "left", "refused"):
            self.gang_admissions.labels(result)
        self.gang_decide_seconds = Histogram(
            "plimsoll_gang_decide_duration_seconds",
            "Time of one gang decision.",
            buckets=(0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25),
            registry=registry,
        )
        self.gang_events = Counter(
            "plimsoll_gang_events",
            "Events on gang pods by reason and result.",
            ["reason", "result"],
            registry=registry,
        )


def bind_gauges(
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

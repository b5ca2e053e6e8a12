"""The metrics of problems."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class ProblemMetrics:
    """The metrics of problems."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.writes = Counter(
            "plimsoll_problem_condition_writes",
            "Writes of node conditions of problems, by result.",
            ["result"],
            registry=registry,
        )
        for result in ("ok", "error"):
            self.writes.labels(result)
        self.dropped = Counter(
            "plimsoll_problem_events_dropped",
            "Events of problems that were not written: too many at once, or refused by the API server.",
            registry=registry,
        )
        self.foreign = Gauge(
            "plimsoll_problem_conditions_foreign",
            "Node conditions of --problemConditions that another reporter owns and keeps.",
            registry=registry,
        )

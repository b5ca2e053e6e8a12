"""The metrics of scorers."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class ScoringMetrics:
    """The metrics of scorers."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.scorer_requests = Counter(
            "plimsoll_scorer_requests",
            "Requests of kube-scheduler to a scorer by verb, HTTP status and whether a cached result was used.",
            ["scorer", "verb", "code", "outcome"],
            registry=registry,
        )
        self.scorer_seconds = Histogram(
            "plimsoll_scorer_duration_seconds",
            "Time of a scorer to assess all nodes for one pod.",
            ["scorer"],
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
            registry=registry,
        )
        self.scorer_missing_nodes = Gauge(
            "plimsoll_scorer_missing_nodes",
            "Nodes without an input that a scorer needs, at its last assessment.",
            ["scorer"],
            registry=registry,
        )
